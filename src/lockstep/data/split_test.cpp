#include "lockstep/data/split.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "lockstep/core/random.h"
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

/// So many classes of so many samples each, in turn.
std::vector<std::int64_t> equal_classes(std::int64_t classes, std::int64_t each) {
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < classes * each; ++i) labels.push_back(i % classes);
  return labels;
}

std::vector<std::size_t> sizes_of(const Parts& parts) {
  std::vector<std::size_t> sizes;
  for (const auto& part : parts) sizes.push_back(part.size());
  return sizes;
}

TEST(Split, RoundingOfSmallClassesDoesNotAddUp) {
  using Sizes = std::vector<std::size_t>;
  EXPECT_EQ(sizes_of(split(300, {.shares = {0.8, 0.2}, .classes = equal_classes(100, 3)})), (Sizes{240, 60}));
  EXPECT_EQ(sizes_of(split(400, {.shares = {0.9, 0.1}, .classes = equal_classes(100, 4)})), (Sizes{360, 40}));
  EXPECT_EQ(sizes_of(folds(400, 5, {.shares = {}, .classes = equal_classes(100, 4)})), Sizes(5, 80));
  EXPECT_EQ(sizes_of(folds(150, 3, {.shares = {}, .classes = equal_classes(3, 50)})), Sizes(3, 50));
}

TEST(Split, ClassesOfAnySizeChangeNoPartsSize) {
  Random random(7, 0);
  for (int round = 0; round < 300; ++round) {
    SplitOptions plain;
    double left = 1;
    for (auto parts = 1 + random.below(6); parts > 0; --parts) {
      plain.shares.push_back(left * static_cast<double>(1 + random.below(10)) / 11);
      left -= plain.shares.back();
    }
    SplitOptions stratified = plain;
    std::map<std::int64_t, std::int64_t> members;
    for (std::int64_t label = 0, classes = 1 + static_cast<std::int64_t>(random.below(30)); label < classes; ++label) {
      members[label] = 1 + static_cast<std::int64_t>(random.below(12));
      stratified.classes.insert(stratified.classes.end(), static_cast<std::size_t>(members[label]), label);
    }
    const auto samples = static_cast<std::int64_t>(stratified.classes.size());
    const Parts parts = split(samples, stratified);
    EXPECT_EQ(sizes_of(parts), sizes_of(split(samples, plain))) << "round " << round;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      std::map<std::int64_t, std::int64_t> here;
      for (const auto sample : parts[part]) ++here[stratified.classes[static_cast<std::size_t>(sample)]];
      for (const auto& [label, count] : members) {
        const double share = plain.shares[part] * static_cast<double>(count);
        EXPECT_LT(std::abs(static_cast<double>(here[label]) - share), 1) << "round " << round << ", class " << label;
      }
    }
  }
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
