// Lines of text, and the tokens that they become.
#include <numeric>

#include "lockstep/data/index_cache.h"
#include "lockstep/data/testing.h"
#include "lockstep/data/transformed.h"

namespace lockstep::data {
namespace {

using c10::ScalarType;

std::vector<std::string> lines_of(const Dataset& set) {
  std::vector<std::string> lines;
  Sample sample;
  for (std::int64_t i = 0; i < set.size(); ++i) {
    set.read(i, sample);
    lines.emplace_back(as_text(sample.values.at(0).bytes));
  }
  return lines;
}

TEST(Text, LinesAreSamples) {
  const Folder folder;
  const auto set = open(folder.write("x.txt",
                                     "\xEF\xBB\xBF"
                                     "one\r\n\ntwo \r x\nlast"));
  EXPECT_EQ(set->schema(), (Schema{{"text", Encoding::Text}}));
  EXPECT_EQ(lines_of(*set), (std::vector<std::string>{"one", "", "two \r x", "last"}));
  EXPECT_EQ(lines_of(*open(folder.write("y.txt", "\n\n"))), (std::vector<std::string>{"", ""}));
  EXPECT_TRUE(has(message_of([&] { open(folder.write("z.txt", "")); }), "holds no samples"));
}

TEST(Text, IsWrittenAsItIsRead) {
  const Folder folder;
  const auto set = open(folder.write("x.txt", "one\n\nGrüße\n"));
  write_all(*set, folder / "y.txt", "text");
  EXPECT_EQ(contents(folder / "y.txt"), contents(folder / "x.txt"));
}

TEST(Text, RefusesWhatIsNoLine) {
  const Folder folder;
  const auto writer = format_named("text").write(folder / "y.txt", {{"t", Encoding::Text}}, {});
  for (const std::string text : {"two\nlines", "ends in\r"}) {
    Sample sample;
    sample.values = {value_of(text)};
    EXPECT_TRUE(has(message_of([&] { writer->add("n7", sample); }), "'n7' holds a line end")) << text;
  }
  Sample missing;
  missing.values = {{{}, {}, true}};
  EXPECT_TRUE(has(message_of([&] { writer->add("n7", missing); }), "no text"));
  const Schema numbers = {{"x", Encoding::Values, ScalarType::Float, {}}};
  EXPECT_TRUE(
      has(message_of([&] { format_named("text").write(folder / "z.txt", numbers, {}); }, Fault::Usage), "x: float32"));
}

template <class Token>
std::string tokens(std::size_t count) {
  std::vector<Token> numbers(count);
  std::iota(numbers.begin(), numbers.end(), Token{0});
  return {reinterpret_cast<const char*>(numbers.data()), count * sizeof(Token)};
}

OpenOptions windows(std::int64_t window, std::int64_t stride = 0, const std::string& type = "uint16") {
  OpenOptions options;
  options.window = window;
  options.stride = stride;
  options.token_type = type;
  return options;
}

template <class Token>
std::vector<Token> tokens_of(const Dataset& set, std::int64_t sample_number) {
  Sample sample;
  set.read(sample_number, sample);
  return numbers_of<Token>(sample.values.at(0));
}

TEST(Tokens, WindowsAreSamples) {
  const Folder folder;
  const auto file = folder.write("x.bin", tokens<std::uint16_t>(11));
  const auto set = open(file, windows(4));
  ASSERT_EQ(set->size(), 2);
  EXPECT_EQ(set->schema(), (Schema{{"tokens", Encoding::Values, ScalarType::UInt16, {4}}}));
  EXPECT_EQ(tokens_of<std::uint16_t>(*set, 1), (std::vector<std::uint16_t>{4, 5, 6, 7}));
  EXPECT_EQ(open(file, windows(11))->size(), 1);
}

TEST(Tokens, WindowsMayOverlapOrLieApart) {
  const Folder folder;
  const auto file = folder.write("x.tokens", tokens<std::uint32_t>(10));
  const auto overlapping = open(file, windows(4, 1, "uint32"));
  ASSERT_EQ(overlapping->size(), 7);
  EXPECT_EQ(tokens_of<std::uint32_t>(*overlapping, 6), (std::vector<std::uint32_t>{6, 7, 8, 9}));
  const auto apart = open(file, windows(2, 5, "uint32"));
  ASSERT_EQ(apart->size(), 2);
  EXPECT_EQ(tokens_of<std::uint32_t>(*apart, 1), (std::vector<std::uint32_t>{5, 6}));
  EXPECT_TRUE(has(apart->name(1), "at byte 20")) << apart->name(1);
}

TEST(Tokens, TheIndexKeepsTheStep) {
  const Folder folder;
  const auto file = folder.write("x.tokens", tokens<std::uint16_t>(10));
  Index index = index_of(file, windows(4, 3));
  const Index kept = Index::parse(index.serialize());
  EXPECT_EQ(kept.columns.at(0).extent(2), (Extent{0, 12, 8}));
  // The last window would end behind the file.
  for (const std::uint64_t step : {7U, 1U << 30}) {
    Index beyond = kept;
    beyond.columns[0].step = step;
    EXPECT_TRUE(has(message_of([&] { Index::parse(beyond.serialize()); }), "cannot be read")) << step;
  }
  Index beyond = kept;
  beyond.columns[0].step = UINT64_MAX;
  EXPECT_TRUE(has(message_of([&] { Index::parse(beyond.serialize()); }), "cannot be read"));
}

TEST(Tokens, AreMadeOfText) {
  const Folder folder;
  const auto text = open(folder.write("x.txt", "abc\nde\n"));
  write_all(*transformed(text, {"tokenise text type=uint16 end=300"}), folder / "y.tokens", "tokens");
  const auto set = open(folder / "y.tokens", windows(7));
  EXPECT_EQ(tokens_of<std::uint16_t>(*set, 0), (std::vector<std::uint16_t>{'a', 'b', 'c', 300, 'd', 'e', 300}));
  EXPECT_TRUE(
      has(message_of([&] { transformed(text, {"tokenise text type=uint16 end=70000"}); }, Fault::Usage), "end=70000"));
  EXPECT_TRUE(has(message_of([&] { transformed(text, {"tokenise text type=float32"}); }, Fault::Usage), "uint16"));
}

TEST(Tokens, AreWrittenOneBehindTheOther) {
  const Folder folder;
  const auto set = open(folder.write("x.bin", tokens<std::uint16_t>(12)), windows(4));
  write_all(*set, folder / "y.bin", "tokens");
  EXPECT_EQ(contents(folder / "y.bin"), contents(folder / "x.bin"));
  const Schema floats = {{"x", Encoding::Values, ScalarType::Float, {4}}};
  EXPECT_TRUE(
      has(message_of([&] { format_named("tokens").write(folder / "z.bin", floats, {}); }, Fault::Usage), "float32[4]"));
}

TEST(Tokens, AreNarrowedWhereTheyFit) {
  const Folder folder;
  const Schema longs = {{"tokens", Encoding::Values, ScalarType::Long, {3}}};
  const auto written = [&](const std::vector<std::int64_t>& ids) {
    const auto writer = format_named("tokens").write(folder / "x.tokens", longs, {});
    Sample sample;
    sample.clear(1);
    sample.values = {value_of(ids, {3})};
    writer->add("0", sample);
    writer->finish();
  };
  written({1, 2, 65535});
  const auto set = open(folder / "x.tokens", windows(3));
  EXPECT_EQ(tokens_of<std::uint16_t>(*set, 0), (std::vector<std::uint16_t>{1, 2, 65535}));
  EXPECT_TRUE(has(message_of([&] { written({1, 2, 65536}); }), "65536 does not fit uint16, as which int64"));
  EXPECT_TRUE(has(message_of([&] { written({1, -2, 3}); }), "-2 does not fit"));
}

TEST(Tokens, NamesWhatIsWrong) {
  const Folder folder;
  const auto file = folder.write("x.bin", tokens<std::uint16_t>(11));
  EXPECT_TRUE(has(message_of([&] { open(file); }, Fault::Usage), "say window = 1024 (--window 1024)"));
  EXPECT_TRUE(has(message_of([&] { open(file, windows(-1)); }, Fault::Usage), "say window = 1024"));
  EXPECT_TRUE(has(message_of([&] { open(file, windows(4, -4)); }, Fault::Usage), "stride is -4"));
  EXPECT_TRUE(has(message_of([&] { open(file, windows(4, 0, "uint32")); }), "22 bytes are no whole number of uint32"));
  EXPECT_TRUE(has(message_of([&] { open(file, windows(4, 0, "uint32")); }), "--token-type"));
  EXPECT_TRUE(has(message_of([&] { open(file, windows(4, 0, "int8")); }, Fault::Usage), "'int8'"));
  EXPECT_TRUE(has(message_of([&] { open(file, windows(INT64_MAX)); }), "11 tokens, too few"));
}

}  // namespace
}  // namespace lockstep::data
