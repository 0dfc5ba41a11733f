#include <gtest/gtest.h>

#include "lockstep/data/format.h"

#if LOCKSTEP_HAS_ARROW
#include <cmath>

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <fmt/format.h>
#include <parquet/arrow/writer.h>

#include "lockstep/data/testing.h"

namespace lockstep::data {
namespace {

/// Files as other programs write them.
void put(const std::string& path, const std::shared_ptr<arrow::Table>& table, std::int64_t group_rows) {
  const auto file = arrow::io::FileOutputStream::Open(path).ValueOrDie();
  ASSERT_TRUE(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), file, group_rows).ok());
  ASSERT_TRUE(file->Close().ok());
}

std::shared_ptr<arrow::Table> small_table(std::int64_t rows) {
  arrow::Int64Builder numbers;
  arrow::StringBuilder texts;
  arrow::Int32Builder some;
  for (std::int64_t i = 0; i < rows; ++i) {
    EXPECT_TRUE(numbers.Append(i * 10).ok());
    EXPECT_TRUE((i == 1 ? texts.AppendNull() : texts.Append("text " + std::to_string(i))).ok());
    EXPECT_TRUE((i == 2 ? some.AppendNull() : some.Append(static_cast<std::int32_t>(i))).ok());
  }
  const auto schema = arrow::schema(
      {arrow::field("n", arrow::int64()), arrow::field("t", arrow::utf8()), arrow::field("some", arrow::int32())});
  return arrow::Table::Make(schema,
                            {numbers.Finish().ValueOrDie(), texts.Finish().ValueOrDie(), some.Finish().ValueOrDie()});
}

TEST(Parquet, ReadsWhatArrowWrote) {
  const Folder folder;
  const std::string path = folder / "x.parquet";
  put(path, small_table(10), 4);
  const auto set = open(path);
  ASSERT_EQ(set->size(), 10);
  EXPECT_EQ(set->schema()[0].text(), "n: int64");
  EXPECT_EQ(set->schema()[1].text(), "t: text");
  EXPECT_EQ(set->schema()[2].text(), "some: float64");
  Sample sample;
  for (std::int64_t i = 0; i < 10; ++i) {
    set->read(i, sample);
    EXPECT_EQ(numbers_of<std::int64_t>(sample.values[0]), std::vector<std::int64_t>{i * 10});
    EXPECT_EQ(sample.values[1].missing, i == 1);
    EXPECT_EQ(as_text(sample.values[1].bytes), i == 1 ? "" : "text " + std::to_string(i));
    const double some = numbers_of<double>(sample.values[2])[0];
    if (i == 2) {
      EXPECT_TRUE(std::isnan(some));
    } else {
      EXPECT_EQ(some, static_cast<double>(i));
    }
  }
}

TEST(Parquet, OneChoosesColumns) {
  const Folder folder;
  const std::string path = folder / "x.parquet";
  put(path, small_table(5), 5);
  OpenOptions options;
  options.fields = {"some", "n"};
  const auto set = open(path, options);
  ASSERT_EQ(set->schema().size(), 2U);
  EXPECT_EQ(set->schema()[1].name, "n");
  Sample sample;
  set->read(3, sample);
  EXPECT_EQ(numbers_of<std::int64_t>(sample.values[1]), std::vector<std::int64_t>{30});
  options.fields = {"m"};
  EXPECT_TRUE(has(message_of([&] { open(path, options); }, Fault::Usage), "no column 'm'"));
}

Schema all_fields() {
  Schema schema = fields_of_all_types({2, 3});
  std::erase_if(schema, [](const Field& field) { return field.type == c10::ScalarType::BFloat16; });
  schema.push_back({"label", Encoding::Values, c10::ScalarType::Long, {}, {"cat", "dog"}});
  schema.push_back({"text", Encoding::Text});
  schema.push_back({"jpg", Encoding::Jpeg});
  return schema;
}

void write_samples(const std::string& path, const Schema& schema, std::int64_t count, const WriteOptions& options) {
  const auto writer = format_named("parquet").write(path, schema, options);
  for (std::int64_t i = 0; i < count; ++i) {
    std::vector<std::string> bytes;
    Sample sample;
    sample.clear(schema.size());
    for (const auto& field : schema) {
      bytes.emplace_back(field.fixed() ? static_cast<std::size_t>(field.bytes()) : 3, static_cast<char>(i % 2));
    }
    for (std::size_t place = 0; place < schema.size(); ++place) sample.values[place].bytes = as_bytes(bytes[place]);
    writer->add("", sample);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  writer->finish();
}

TEST(Parquet, IsReadAsItWasWritten) {
  const Folder folder;
  const Schema schema = all_fields();
  for (const std::string compression : {"", "zstd", "snappy"}) {
    const std::string path = folder / ("x" + compression + ".parquet");
    write_samples(path, schema, 1500, {compression, -1});  // more than a row group
    const auto set = open(path);
    ASSERT_EQ(set->size(), 1500);
    EXPECT_EQ(set->schema(), schema);
    Sample sample;
    for (const std::int64_t i : {0, 1, 1023, 1499}) {
      set->read(i, sample);
      for (const auto& value : sample.values) {
        ASSERT_EQ(as_text(value.bytes), std::string(value.bytes.size(), static_cast<char>(i % 2)));
      }
    }
    write_all(*set, folder / "again.parquet", "parquet");
    expect_same(*open(folder / "again.parquet"), *set);
  }
}

TEST(Parquet, NamesWhatItCannotHold) {
  const Folder folder;
  const auto& format = format_named("parquet");
  const Schema ragged = {{"x", Encoding::Values, c10::ScalarType::Float, {-1}}};
  EXPECT_TRUE(has(message_of([&] { format.write(folder / "x.parquet", ragged, {}); }, Fault::Usage), "float32[?]"));
  const Schema no_width = {{"x", Encoding::Values, c10::ScalarType::Double, {0}}};
  EXPECT_TRUE(has(message_of([&] { format.write(folder / "x.parquet", no_width, {}); }, Fault::Usage), "float64[0]"));
  EXPECT_TRUE(has(message_of([&] { format.write(folder / "x.parquet", {}, {"lzma", 1}); }, Fault::Usage), "'lzma'"));
  EXPECT_TRUE(std::filesystem::is_empty(folder / "")) << "what was not finished is left behind";
}

TEST(Parquet, AFullDiskIsNamed) {
  const Folder folder;
  const std::string path = folder / "x.parquet";
  const rlimit before = limit_file_size(500);
  const std::string message = message_of([&] { write_samples(path, all_fields(), 1500, {}); }, Fault::Io);
  limit_file_size(before.rlim_cur);
  EXPECT_TRUE(has(message, "cannot write " + path + ": File too large; make room")) << message;
  EXPECT_TRUE(std::filesystem::is_empty(folder / "")) << "what was not finished is left behind";
}

TEST(Parquet, TornFilesAreErrors) {
  const Folder folder;
  put(folder / "good.parquet", small_table(50), 20);
  const std::string good = contents(folder / "good.parquet");
  ASSERT_TRUE(reads_all(folder / "good.parquet"));
  for (std::size_t size = 0; size < good.size(); size += 101) {
    EXPECT_FALSE(reads_all(folder.write("x.parquet", good.substr(0, size))))
        << size << " of " << good.size() << " bytes";
  }
  std::size_t refused = 0;
  for (std::size_t place = 0; place < good.size(); place += 17) {
    std::string bad = good;
    bad[place] = static_cast<char>(bad[place] ^ 0xFF);
    refused += reads_all(folder.write("x.parquet", bad)) ? 0 : 1;
  }
  EXPECT_GT(refused, 10U);
  EXPECT_TRUE(has(message_of([&] { open(folder.write("x.parquet", "no such thing at all")); }), "Parquet"));
}

}  // namespace
}  // namespace lockstep::data
#endif
