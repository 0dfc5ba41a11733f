#include "lockstep/data/order.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "lockstep/core/error.h"
#include "lockstep/data/permutation.h"

namespace lockstep::data {
namespace {

std::vector<std::int64_t> epoch_of(const Order& order, std::int64_t epoch) {
  std::vector<std::int64_t> samples;
  for (std::int64_t position = 0; position < order.length(); ++position) samples.push_back(order.at(epoch, position));
  return samples;
}

void expect_all_once(std::vector<std::int64_t> samples, std::int64_t count) {
  ASSERT_EQ(static_cast<std::int64_t>(samples.size()), count);
  std::sort(samples.begin(), samples.end());
  for (std::int64_t i = 0; i < count; ++i) ASSERT_EQ(samples[static_cast<std::size_t>(i)], i);
}

TEST(Permutation, IsOneToOneAndInvertible) {
  for (const std::uint64_t size : {1, 2, 3, 4, 5, 7, 8, 31, 64, 65, 1000, 4097}) {
    for (const std::uint64_t key : {0, 1, 77}) {
      const Permutation permutation(size, key);
      std::set<std::uint64_t> seen;
      for (std::uint64_t i = 0; i < size; ++i) {
        const auto number = permutation(i);
        ASSERT_LT(number, size);
        ASSERT_EQ(permutation.inverse(number), i);
        seen.insert(number);
      }
      EXPECT_EQ(seen.size(), size);
    }
  }
}

TEST(Permutation, WorksOnAsManyAsThereAre) {
  const std::uint64_t size = (std::uint64_t{1} << 62) + 12'345;
  const Permutation permutation(size, 5);
  for (std::uint64_t i = 0; i < 100; ++i)
    EXPECT_EQ(permutation.inverse(permutation(size - 1 - i * i)), size - 1 - i * i);
}

/// Chi-squared of counts that should be equal: about `cells`, give or take a few times sqrt(2 cells).
double chi_squared(const std::map<std::uint64_t, int>& counts, std::size_t cells, double total) {
  const double expected = total / static_cast<double>(cells);
  double sum = (static_cast<double>(cells) - static_cast<double>(counts.size())) * expected;
  for (const auto& [cell, count] : counts) sum += (count - expected) * (count - expected) / expected;
  return sum;
}

TEST(Permutation, PutsEveryNumberEverywhereAlikeOften) {
  for (const std::uint64_t size : {5, 16, 100}) {
    std::map<std::uint64_t, int> where_zero_goes, what_follows_zero;
    constexpr int kKeys = 20'000;
    for (std::uint64_t key = 0; key < kKeys; ++key) {
      const Permutation permutation(size, key);
      ++where_zero_goes[permutation(0)];
      ++what_follows_zero[permutation((permutation.inverse(0) + 1) % size)];
    }
    const auto cells = static_cast<double>(size);
    EXPECT_LT(chi_squared(where_zero_goes, size, kKeys), cells + 6 * std::sqrt(2 * cells)) << size;
    EXPECT_LT(chi_squared(what_follows_zero, size - 1, kKeys), cells + 6 * std::sqrt(2 * cells)) << size;
  }
}

TEST(Order, EveryEpochHoldsEverySampleOnce) {
  for (const char* name : {"sequential", "shuffle", "blocked", "by_length"}) {
    for (const std::int64_t samples : {1, 2, 9, 10, 11, 100, 1001}) {
      for (const std::int64_t window : {1, 3}) {
        OrderOptions options;
        options.samples = samples;
        for (std::int64_t i = 0; i < samples; ++i) options.lengths.push_back(i * i % 17);
        options.seed = 4;
        options.block = 10;
        options.window = window;
        const auto order = make_order(name, options);
        for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
          SCOPED_TRACE(std::string(name) + " " + std::to_string(samples));
          expect_all_once(epoch_of(*order, epoch), samples);
        }
      }
    }
  }
}

TEST(Order, ShuffleDependsOnSeedAndEpochAlone) {
  OrderOptions options;
  options.samples = 1000;
  options.seed = 1;
  const auto one = make_order("shuffle", options), again = make_order("shuffle", options);
  EXPECT_EQ(epoch_of(*one, 0), epoch_of(*again, 0));
  EXPECT_NE(epoch_of(*one, 0), epoch_of(*one, 1));
  options.seed = 2;
  EXPECT_NE(epoch_of(*one, 0), epoch_of(*make_order("shuffle", options), 0));
}

TEST(Order, BlockedStaysInAFewBlocksAtATime) {
  OrderOptions options;
  options.samples = 995;
  options.block = 10;
  options.window = 4;
  const auto samples = epoch_of(*make_order("blocked", options), 0);
  std::set<std::int64_t> first;
  for (std::size_t i = 0; i < 35; ++i) first.insert(samples[i] / 10);
  EXPECT_LE(first.size(), 4U);
  EXPECT_FALSE(std::is_sorted(samples.begin(), samples.begin() + 20));
}

TEST(Order, MixKeepsToItsWeights) {
  OrderOptions options;
  options.samples = 1100;
  options.seed = 9;
  options.groups = {{3, 0, 100, {}}, {1, 100, 1000, {}}};
  options.length = 4096;
  const auto order = make_order("mix", options);
  std::map<std::int64_t, int> seen;
  int small = 0;
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    for (const auto sample : epoch_of(*order, epoch)) {
      small += sample < 100;
      ++seen[sample];
    }
  }
  EXPECT_EQ(small, 3 * 2 * 4096 / 4);
  // 61 or 62 times each, since a group begins anew only when all of it was seen; the large one 2 or 3 times.
  for (const auto& [sample, count] : seen) {
    EXPECT_GE(count, sample < 100 ? 61 : 2) << sample;
    EXPECT_LE(count, sample < 100 ? 62 : 3) << sample;
  }
  EXPECT_EQ(seen.size(), 1100U);
}

TEST(Order, BalancedDrawsEveryClassAlike) {
  OrderOptions options;
  options.samples = 63;
  options.groups = {{5, 0, 0, {0, 2, 4}}, {1, 3, 60, {}}, {1, 0, 0, {1}}};
  options.length = 3 * 4096;
  std::map<int, int> classes;
  for (const auto sample : epoch_of(*make_order("balanced", options), 0)) {
    ++classes[sample == 1 ? 2 : sample == 0 || sample == 2 || sample == 4 ? 0 : 1];
  }
  // Sample 4 is in the first group and in the run of the second.
  EXPECT_NEAR(classes[0], 4096, 4096 / 60 + 2);
  EXPECT_EQ(classes[2], 4096);
}

TEST(Order, MixTakesWeightsOfAnySize) {
  OrderOptions options;
  options.samples = 20;
  options.length = 4096;
  for (const double weight : {1e308, 1e-308}) {
    options.groups = {{weight, 0, 10, {}}, {weight, 10, 10, {}}};
    const auto samples = epoch_of(*make_order("mix", options), 0);
    EXPECT_EQ(std::count_if(samples.begin(), samples.end(), [](auto sample) { return sample < 10; }), 2048) << weight;
  }
}

TEST(Order, AWindowMayBeLargerThanAllBlocks) {
  OrderOptions options;
  options.samples = 1000;
  options.lengths.assign(1000, 1);
  for (const char* name : {"blocked", "by_length"}) {
    for (const std::int64_t window : {std::int64_t{1} << 56, INT64_MAX}) {
      options.block = 256;
      options.window = window;
      SCOPED_TRACE(name);
      expect_all_once(epoch_of(*make_order(name, options), 0), 1000);
    }
  }
}

TEST(Order, RefusesWhatMakesNone) {
  OrderOptions options;
  EXPECT_THROW(make_order("shuffle", options), Error);
  options.samples = 10;
  EXPECT_THROW(make_order("shufle", options), Error);
  EXPECT_THROW(make_order("mix", options), Error);
  options.groups = {{-1, 0, 10, {}}};
  EXPECT_THROW(make_order("mix", options), Error);
  options.block = 0;
  EXPECT_THROW(make_order("blocked", options), Error);
}

}  // namespace
}  // namespace lockstep::data
