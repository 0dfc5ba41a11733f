#include <fmt/format.h>

#include "lockstep/data/testing.h"

namespace lockstep::data {
namespace {

using c10::ScalarType;

std::string fields_of(const Dataset& set) {
  std::string text;
  for (const auto& field : set.schema()) text += (text.empty() ? "" : ", ") + field.text();
  return text;
}

/// The value as text; "-" if it is missing.
std::string value_at(const Dataset& set, std::int64_t row, const std::string& name) {
  Sample sample;
  set.read(row, sample);
  const std::size_t place = place_of(set.schema(), name);
  const Value& value = sample.values[place];
  const Field& field = set.schema()[place];
  if (value.missing) return "-";
  if (field.encoding == Encoding::Text) return std::string(as_text(value.bytes));
  EXPECT_TRUE(value.shape.empty());
  if (field.type == ScalarType::Long) return std::to_string(numbers_of<std::int64_t>(value).at(0));
  if (field.type == ScalarType::Bool) return numbers_of<std::uint8_t>(value).at(0) != 0 ? "true" : "false";
  return fmt::format("{}", numbers_of<double>(value).at(0));
}

OpenOptions asking(const std::string& separator, bool header = true) {
  OpenOptions options;
  options.separator = separator;
  options.header = header;
  return options;
}

class Csv : public testing::Test {
 protected:
  DatasetPtr table(const std::string& text, const OpenOptions& options = {}) const {
    return open(folder.write("x.csv", text), options);
  }
  std::string refusal(const std::string& text, const OpenOptions& options = {}, Fault fault = Fault::Data) const {
    return message_of([&] { table(text, options); }, fault);
  }
  Folder folder;
};

TEST_F(Csv, FindsTypesOverAllRows) {
  const auto set = table(
      "whole,float,flag,word,late\n"
      "1,1.5,true,a,1\n"
      "-2,1e5,False,2,2\n"
      "+3,inf,TRUE,3.0,x\n");
  ASSERT_EQ(set->size(), 3);
  EXPECT_EQ(fields_of(*set), "whole: int64, float: float64, flag: bool, word: text, late: text");
  EXPECT_EQ(value_at(*set, 1, "whole"), "-2");
  EXPECT_EQ(value_at(*set, 2, "whole"), "3");
  EXPECT_EQ(value_at(*set, 1, "float"), "100000");
  EXPECT_EQ(value_at(*set, 2, "float"), "inf");
  EXPECT_EQ(value_at(*set, 1, "flag"), "false");
  EXPECT_EQ(value_at(*set, 2, "word"), "3.0");
  EXPECT_EQ(value_at(*set, 0, "late"), "1");
  EXPECT_TRUE(has(set->name(1), "sample 1 at byte 42")) << set->name(1);
}

TEST_F(Csv, KnowsWhatIsMissing) {
  const auto set = table("n,f,b,t,none\n1,NA,,N/A,\n,0.5,true,\"\",NaN\n3,null,false,\"NA\",\n4,5,true,word,\n");
  EXPECT_EQ(fields_of(*set), "n: float64, f: float64, b: bool, t: text, none: float64");
  EXPECT_EQ(value_at(*set, 0, "n"), "1");
  EXPECT_EQ(value_at(*set, 1, "n"), "nan");
  EXPECT_EQ(value_at(*set, 0, "f"), "nan");
  EXPECT_EQ(value_at(*set, 0, "b"), "-");
  EXPECT_EQ(value_at(*set, 0, "t"), "-");
  EXPECT_EQ(value_at(*set, 1, "t"), "");
  EXPECT_EQ(value_at(*set, 2, "t"), "NA");
}

TEST_F(Csv, ReadsQuotesAndLineEnds) {
  const auto set = table(
      "\xEF\xBB\xBF"
      "\"a, b\", c\r\n"
      "\"two\nlines\",1\r\n"
      "\r\n"
      "\"say \"\"hi\"\"\",\"2\"\r\n"
      "5\" disk,3");
  ASSERT_EQ(set->size(), 3);
  EXPECT_EQ(fields_of(*set), "a, b: text, c: int64");
  EXPECT_EQ(value_at(*set, 0, "a, b"), "two\nlines");
  EXPECT_EQ(value_at(*set, 1, "a, b"), "say \"hi\"");
  EXPECT_EQ(value_at(*set, 1, "c"), "2");
  EXPECT_EQ(value_at(*set, 2, "a, b"), "5\" disk");
}

TEST_F(Csv, FindsTheSeparator) {
  for (const std::string separator : {",", ";", "\t", "|"}) {
    const auto set = table("a" + separator + "b" + separator + "c\n1" + separator + "\"2,5;\t|\"" + separator + "3\n");
    ASSERT_EQ(set->schema().size(), 3U) << separator;
    EXPECT_EQ(value_at(*set, 0, "b"), "2,5;\t|") << separator;
  }
  EXPECT_EQ(fields_of(*table("a;b\n1,5;2,5\n")), "a: text, b: text");
  EXPECT_EQ(fields_of(*table("only\n1\n\n3\n")), "only: float64");
  EXPECT_EQ(table("a b\n1 2\n", asking(" "))->schema().size(), 2U);
  EXPECT_EQ(table("a\tb,c\n1\t2,3\n", asking("tab"))->schema()[1].name, "b,c");
  EXPECT_EQ(open(folder.write("x.tsv", "a,b\tc\n1,2\t3\n"))->schema()[0].name, "a,b");
  EXPECT_TRUE(has(refusal("a,b\n1,2\n", asking(", "), Fault::Usage), "', '"));
}

TEST_F(Csv, NeedsNoHeader) {
  const auto set = table("1,x\n2,y\n", asking("", false));
  ASSERT_EQ(set->size(), 2);
  EXPECT_EQ(fields_of(*set), "c0: int64, c1: text");
  EXPECT_EQ(value_at(*set, 0, "c0"), "1");
}

TEST_F(Csv, NamesTheLineThatIsWrong) {
  const auto ragged = refusal("a,b,c\n1,2,3\n\"4\n4\",5,6\n7,8\n");
  EXPECT_TRUE(has(ragged, "line 5 has 2 fields, the header has 3 (at byte 22)")) << ragged;
  EXPECT_TRUE(has(ragged, "x.csv"));
  EXPECT_TRUE(has(refusal("1,2\n1\n", asking(",", false)), "line 2 has 1 fields, line 1 has 2"));
  EXPECT_TRUE(has(refusal("a,b\n1,\"2\n3,4\n"), "opens in line 2 at byte 6 is never closed"));
  EXPECT_TRUE(has(refusal("a,b\n1,\"2\"3\n"), "line 2 goes on behind a closing quote"));
}

TEST_F(Csv, RefusesAHeaderThatNamesNothing) {
  EXPECT_TRUE(has(refusal("a,,c\n1,2,3\n"), "column 2 of the header in line 1, '', has no name"));
  EXPECT_TRUE(has(refusal("a,,c\n1,2,3\n"), "say header = false (--no-header)"));
  EXPECT_TRUE(has(refusal("a,b,a\n1,2,3\n"), "column 3 of the header in line 1, 'a', has the name"));
  EXPECT_TRUE(has(refusal("a,\xFC\n1,2\n"), "not UTF-8"));
  EXPECT_TRUE(has(refusal("\xFF\xFE"
                          "a"),
                  "UTF-16"));
  EXPECT_TRUE(has(refusal("a,b\n"), "holds no samples"));
  EXPECT_TRUE(has(refusal(""), "holds no samples"));
  EXPECT_TRUE(has(refusal("\n\n\n"), "holds no samples"));
}

TEST_F(Csv, FilesAreReadAsOne) {
  folder.write("part-0.csv", "a,b,c,d\n1,1,true,1\n");
  folder.write("part-1.csv", "a;b;c;d\n0.5;x;false;2\n");
  const auto set = open(folder / "part-*.csv");
  EXPECT_EQ(fields_of(*set), "a: float64, b: text, c: bool, d: int64");
  EXPECT_EQ(value_at(*set, 0, "a"), "1");
  EXPECT_EQ(value_at(*set, 0, "b"), "1");
  EXPECT_EQ(value_at(*set, 1, "d"), "2");
  folder.write("part-2.csv", "a,b,C,d\n1,1,true,1\n");
  EXPECT_TRUE(has(message_of([&] { open(folder / "part-*.csv"); }), "column 3 is 'c' and 'C'"));
  folder.write("part-2.csv", "a,b\n1,1\n");
  const auto message = message_of([&] { open(folder / "part-*.csv"); });
  EXPECT_TRUE(has(message, "4 and 2 of them")) << message;
  EXPECT_TRUE(has(message, folder / "part-0.csv" + " and " + folder / "part-2.csv")) << message;
}

TEST_F(Csv, PartsMayBeWithoutRows) {
  folder.write("part-0.csv", "a,b\n");
  folder.write("part-1.csv", "a,b\n1,x\n");
  folder.write("part-2.csv", "a,b\n2,y\n");
  const auto set = open(folder / "part-*.csv");
  EXPECT_EQ(fields_of(*set), "a: int64, b: text");
  ASSERT_EQ(set->size(), 2);
  EXPECT_EQ(value_at(*set, 1, "b"), "y");
  EXPECT_TRUE(has(message_of([&] { open(folder / "part-0.csv"); }), "holds no samples"));
  folder.write("none-0.csv", "a,b\n");
  folder.write("none-1.csv", "a,b\n");
  EXPECT_TRUE(has(message_of([&] { open(folder / "none-*.csv"); }), "all files beside it hold no samples"));
}

TEST_F(Csv, IsReadFromTheKeptIndexToo) {
  const std::string text = "a;b\n1;\"x\"\"y\"\n;z\n";
  const auto first = table(text);
  ASSERT_TRUE(std::filesystem::exists(folder / "x.csv.lsx"));
  expect_same(*open(folder / "x.csv"), *first);
}

TEST_F(Csv, IsWrittenAsItIsRead) {
  const auto set = table(
      "n,f,b,\"t, t\",m\n1,0.1,true,\"a,\"\"b\"\"\nc\",\n-2,3.0,false,\"\",NA\n3,nan,true,\" "
      "x\",\"NA\"\n4,1e300,true,y|z,word\n");
  EXPECT_EQ(fields_of(*set), "n: int64, f: float64, b: bool, t, t: text, m: text");
  for (const std::string name : {"y.csv", "y.tsv"}) {
    write_all(*set, folder / name, "csv");
    const auto again = open(folder / name);
    EXPECT_EQ(again->schema(), set->schema());
    expect_same(*again, *set);
  }
  EXPECT_TRUE(contents(folder / "y.tsv").starts_with("n\tf\tb\t\"t, t\"\tm\n1\t0.1\ttrue\t\"a,\"\"b\"\"\nc\"\t\n"))
      << contents(folder / "y.tsv");
}

TEST_F(Csv, WritesVectorsAsColumns) {
  const Schema schema = {{"x", Encoding::Values, ScalarType::Float, {2}}, {"y", Encoding::Values, ScalarType::Byte}};
  const std::vector<float> x = {0.1F, 2};
  const std::vector<std::uint8_t> y = {7};
  const auto writer = format_named("csv").write(folder / "y.csv", schema, {});
  Sample sample;
  sample.values = {value_of(x, {2}), value_of(y, {})};
  writer->add("0", sample);
  sample.values[0].missing = true;
  writer->add("1", sample);
  writer->finish();
  EXPECT_EQ(contents(folder / "y.csv"), "x_0,x_1,y\n0.1,2.0,7\n,,7\n");
}

TEST_F(Csv, RefusesToWriteWhatIsNoTable) {
  const auto message = [&](const Schema& schema) {
    return message_of([&] { format_named("csv").write(folder / "y.csv", schema, {}); }, Fault::Usage);
  };
  EXPECT_TRUE(has(message({{"x", Encoding::Values, ScalarType::Float, {2, 2}}}), "npy or npz"));
  EXPECT_TRUE(has(message({{"x", Encoding::Values, ScalarType::Float, {-1}}}), "npy or npz"));
  EXPECT_TRUE(has(message({{"x", Encoding::Jpeg}}), "x: jpeg"));
  EXPECT_TRUE(has(message({{"x", Encoding::Values, ScalarType::Float, {1}}, {"x_0", Encoding::Text}}), "'x_0'"));
  EXPECT_TRUE(has(message({}), "no field"));
  EXPECT_FALSE(std::filesystem::exists(folder / "y.csv"));
}

}  // namespace
}  // namespace lockstep::data
