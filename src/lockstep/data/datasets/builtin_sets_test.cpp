// Built-in sets: what is said while they are absent, and what they hold where
// `lockstep data get` has brought them.
#include <algorithm>
#include <numeric>

#include "lockstep/data/datasets/fetch.h"
#include "lockstep/data/datasets/labelled_images.h"
#include "lockstep/data/datasets/memory_dataset.h"
#include "lockstep/data/datasets/number_table.h"
#include "lockstep/data/testing.h"

namespace lockstep::data {
namespace {

struct Known {
  std::string set;
  std::int64_t samples;
  std::string first_field;
  std::string last_field;
  std::size_t classes;
};

void PrintTo(const Known& known, std::ostream* out) { *out << known.set; }

const std::vector<Known> kSets = {
    {"mnist", 60'000, "image: uint8[28, 28]", "label: uint8", 10},
    {"mnist-test", 10'000, "image: uint8[28, 28]", "label: uint8", 10},
    {"fashion-mnist", 60'000, "image: uint8[28, 28]", "label: uint8", 10},
    {"fashion-mnist-test", 10'000, "image: uint8[28, 28]", "label: uint8", 10},
    {"cifar10", 50'000, "image: uint8[32, 32, 3]", "label: uint8", 10},
    {"cifar10-test", 10'000, "image: uint8[32, 32, 3]", "label: uint8", 10},
    {"breast-cancer", 569, "x: float64[30]", "label: int64", 2},
    {"diabetes", 442, "x: float64[10]", "target: float64", 0},
    {"digits", 1797, "x: float64[64]", "label: int64", 10},
    {"iris", 150, "x: float64[4]", "label: int64", 3},
    {"wine", 178, "x: float64[13]", "label: int64", 3},
};

class BuiltinSets : public testing::TestWithParam<Known> {};
INSTANTIATE_TEST_SUITE_P(Sets, BuiltinSets, testing::ValuesIn(kSets));

TEST_P(BuiltinSets, HoldWhatTheyPromise) {
  const Known& known = GetParam();
  if (!is_fetched(known.set)) GTEST_SKIP() << "lockstep data get " << known.set;
  const auto set = open(known.set);
  EXPECT_EQ(set->size(), known.samples);
  ASSERT_EQ(set->schema().size(), 2U);
  EXPECT_EQ(set->schema()[0].text(), known.first_field);
  const Field& last = set->schema()[1];
  EXPECT_TRUE(last.text().starts_with(known.last_field)) << last.text();
  EXPECT_EQ(last.classes.size(), known.classes);
  Sample sample;
  std::vector<std::int64_t> counts(known.classes);
  for (std::int64_t i = 0; i < set->size() && known.classes > 0; ++i) {
    set->read(i, sample);
    const auto label = last.type == c10::ScalarType::Byte ? numbers_of<std::uint8_t>(sample.values[1])[0]
                                                          : numbers_of<std::int64_t>(sample.values[1])[0];
    ASSERT_LT(static_cast<std::size_t>(label), counts.size());
    ++counts[static_cast<std::size_t>(label)];
  }
  for (const auto count : counts) EXPECT_GT(count, known.samples / static_cast<std::int64_t>(2 * known.classes));
}

TEST_P(BuiltinSets, SayHowTheyAreFetched) {
  const Folder folder;
  const EnvironmentVariable cache("XDG_CACHE_HOME", folder / "none");
  const std::string& set = GetParam().set;
  EXPECT_EQ(message_of([&] { open(set); }, Fault::Usage),
            set + " is not on this machine; fetch it with: lockstep data get " + set);
  EXPECT_TRUE(has(message_of([&] { open(set + ":size=3"); }, Fault::Usage), "has no 'size'"));
}

TEST(LabelledImages, AreWrittenWithTheirLabels) {
  const Folder folder;
  write_labelled_images(folder / "", "part", {1, 2, 3}, "abcdefghijkl", std::string("\1\0", 2));
  const auto set = open(folder / "part-images-idx4-ubyte");
  EXPECT_EQ(set->size(), 2);
  EXPECT_EQ(set->schema()[0].text(), "image: uint8[1, 2, 3]");
  Sample sample;
  set->read(1, sample);
  EXPECT_EQ(as_text(sample.values[0].bytes), "ghijkl");
  EXPECT_EQ(numbers_of<std::uint8_t>(sample.values[1]), std::vector<std::uint8_t>{0});
}

TEST(BuiltinTables, HaveTheirNumbers) {
  if (!is_fetched("iris")) GTEST_SKIP() << "lockstep data get iris";
  Sample sample;
  const auto iris = open("iris"), diabetes = open("diabetes");
  iris->read(0, sample);
  EXPECT_EQ(numbers_of<double>(sample.values[0]), (std::vector<double>{5.1, 3.5, 1.4, 0.2}));
  EXPECT_EQ(iris->schema()[1].classes, (std::vector<std::string>{"setosa", "versicolor", "virginica"}));
  diabetes->read(441, sample);
  EXPECT_EQ(numbers_of<double>(sample.values[0]),
            (std::vector<double>{36, 1, 19.6, 71, 250, 133.2, 97, 3, 4.5951, 92}));
  EXPECT_EQ(numbers_of<double>(sample.values[1]), std::vector<double>{57});
}

TEST(BuiltinTexts, AreParagraphsOrTokens) {
  if (!is_fetched("moby-dick")) GTEST_SKIP() << "lockstep data get moby-dick";
  const auto paragraphs = open("moby-dick");
  Sample sample;
  bool found = false;
  for (std::int64_t i = 0; i < paragraphs->size(); ++i) {
    paragraphs->read(i, sample);
    const auto text = as_text(sample.values[0].bytes);
    EXPECT_FALSE(has(std::string(text), "\n\n"));
    found = found || text.starts_with("Call me Ishmael.");
  }
  EXPECT_TRUE(found);
  const auto windows = open("moby-dick:window=16,stride=8");
  EXPECT_EQ(windows->schema()[0].text(), "tokens: int64[16]");
  Sample next;
  windows->read(10, sample);
  windows->read(11, next);
  const auto first = numbers_of<std::int64_t>(sample.values[0]), second = numbers_of<std::int64_t>(next.values[0]);
  EXPECT_TRUE(std::equal(first.begin() + 8, first.end(), second.begin()));
  EXPECT_TRUE(has(message_of([] { open("moby-dick:stride=3"); }, Fault::Usage), "say window=N too"));
  EXPECT_TRUE(has(message_of([] { open("moby-dick:window=9999999"); }, Fault::Usage), "fewer than the window"));
  if (is_fetched("gpt2-bpe")) {
    EXPECT_EQ(open("moby-dick:window=100,tokenizer=bpe")->size(), 317'756 / 100);
  }
}

TEST(NumberTable, IsReadLineByLine) {
  const auto table = parse_numbers("1,2.5,-3e1\r\n\n4 5\t6");
  EXPECT_EQ(table.columns, 3U);
  EXPECT_EQ(table.numbers, (std::vector<double>{1, 2.5, -30, 4, 5, 6}));
  EXPECT_EQ(parse_numbers("").rows(), 0U);
  EXPECT_TRUE(has(message_of([] { parse_numbers("1,2\n3\n"); }), "line 2 has 1 numbers, those before it 2"));
  EXPECT_TRUE(has(message_of([] { parse_numbers("1,x\n"); }), "line 1 has 'x' where a number is expected"));
  EXPECT_TRUE(has(message_of([] { parse_numbers("1,2x\n"); }), "'2x'"));
}

TEST(MemoryDataset, ReadsRows) {
  std::vector<float> numbers(6);
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  const Schema schema = {{"x", Encoding::Values, c10::ScalarType::Float, {2}}};
  const auto set = memory_dataset("mine", schema, {column_of(numbers)});
  Sample sample;
  set->read(2, sample);
  EXPECT_EQ(numbers_of<float>(sample.values[0]), (std::vector<float>{4, 5}));
  EXPECT_EQ(set->name(2), "mine: sample 2");
  const Schema two = {schema[0], {"y", Encoding::Values, c10::ScalarType::Float}};
  EXPECT_TRUE(has(message_of([&] { memory_dataset("mine", two, {column_of(numbers), ""}); }, Fault::Internal),
                  "y: float32 has 0 rows, not 3"));
}

}  // namespace
}  // namespace lockstep::data
