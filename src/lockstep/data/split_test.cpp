#include "lockstep/data/split.h"

#include <algorithm>
#include <map>

#include "lockstep/data/testing.h"

namespace lockstep::data {
namespace {

using Parts = std::vector<std::vector<std::int64_t>>;

void expect_disjoint(const Parts& parts, std::size_t samples) {
  std::vector<std::int64_t> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
  EXPECT_EQ(all.size(), samples);
}

TEST(Split, GivesEachPartItsShare) {
  const Parts parts = split(1000, {.shares = {0.8, 0.1, 0.1}, .seed = 3});
  EXPECT_EQ(parts[0].size(), 800U);
  EXPECT_EQ(parts[1].size(), 100U);
  expect_disjoint(parts, 1000);
  EXPECT_TRUE(std::is_sorted(parts[1].begin(), parts[1].end()));
  EXPECT_EQ(parts, split(1000, {.shares = {0.8, 0.1, 0.1}, .seed = 3}));
  EXPECT_NE(parts, split(1000, {.shares = {0.8, 0.1, 0.1}, .seed = 4}));
  // A third each of 10: none is lost by rounding.
  expect_disjoint(split(10, {.shares = {1.0 / 3, 1.0 / 3, 1.0 / 3}}), 10);
  expect_disjoint(split(100, {.shares = {0.2}}), 20);
}

TEST(Split, KeepsTheSharesOfClasses) {
  SplitOptions options;
  options.shares = {0.75, 0.25};
  for (int i = 0; i < 400; ++i) options.classes.push_back(i % 10 == 0 ? 7 : -1);
  const Parts parts = split(400, options);
  expect_disjoint(parts, 400);
  const auto rare = [&](const std::vector<std::int64_t>& part) {
    return std::count_if(part.begin(), part.end(), [](auto i) { return i % 10 == 0; });
  };
  EXPECT_EQ(rare(parts[0]), 30);
  EXPECT_EQ(rare(parts[1]), 10);
}

TEST(Split, FoldsHoldEverySampleOnce) {
  const Parts parts = folds(103, 5, {});
  expect_disjoint(parts, 103);
  for (const auto& part : parts) EXPECT_NEAR(static_cast<double>(part.size()), 20.6, 1);
}

TEST(Split, TakesTextsAsLabels) {
  const Folder folder;
  const auto set = open(folder.write("x.csv", "x,pet\n1,dog\n2,cat\n3,dog\n4,ant\n"));
  EXPECT_EQ(labels_of(*set, "pet"), (std::vector<std::int64_t>{2, 1, 2, 0}));
  EXPECT_EQ(labels_of(*set, "x"), (std::vector<std::int64_t>{1, 2, 3, 4}));
  const auto torn = open(folder.write("y.csv", "x,pet\n1,dog\n2,\n"));
  EXPECT_TRUE(has(message_of([&] { labels_of(*torn, "pet"); }), "y.csv: sample 1"));
}

TEST(Split, RefusesWhatIsNoSplit) {
  EXPECT_TRUE(has(message_of([] { folds(5, 1, {}); }, Fault::Usage), "2 or more"));
  EXPECT_THROW(split(10, {.shares = {}}), Error);
  EXPECT_THROW(split(10, {.shares = {0.7, 0.4}}), Error);
  EXPECT_THROW(split(10, {.shares = {-0.1}}), Error);
  EXPECT_THROW(folds(10, 1, {}), Error);
  EXPECT_THROW(folds(10, 11, {}), Error);
}

}  // namespace
}  // namespace lockstep::data
