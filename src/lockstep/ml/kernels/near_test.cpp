#include "lockstep/ml/kernels/near.h"

#include <cmath>
#include <limits>
#include <set>

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include "lockstep/core/random.h"

namespace lockstep::ml {
namespace {

using Pairs = std::set<std::pair<std::int32_t, std::int32_t>>;

template <class T>
struct Case {
  std::int64_t rows, queries, columns;
  std::vector<T> x, q, shift;

  Case(std::int64_t rows_, std::int64_t queries_, std::int64_t columns_, double scale, double mean)
      : rows(rows_), queries(queries_), columns(columns_) {
    Random random(static_cast<std::uint64_t>(rows * 1000 + columns), static_cast<std::uint64_t>(queries));
    const auto draw = [&] { return static_cast<T>(mean + scale * random.normal()); };
    for (std::int64_t i = 0; i < rows * columns; ++i) x.push_back(draw());
    for (std::int64_t i = 0; i < queries * columns; ++i) q.push_back(draw());
    shift.assign(static_cast<std::size_t>(columns), static_cast<T>(mean));
  }

  double distance(std::int64_t row, std::int64_t query) const {
    double sum = 0;
    for (std::int64_t column = 0; column < columns; ++column) {
      const double way = static_cast<double>(x[static_cast<std::size_t>(row * columns + column)]) -
                         static_cast<double>(q[static_cast<std::size_t>(query * columns + column)]);
      sum += way * way;
    }
    return sum;
  }

  Pairs found(const std::vector<double>& reach) const {
    QueryPanels<T> panels(q.data(), queries, columns, shift.data());
    for (std::size_t i = 0; i < reach.size(); ++i) panels.set_reach(static_cast<std::int64_t>(i), reach[i]);
    MovedRows<T> moved;
    moved.take(x.data(), rows, columns, shift.data());
    std::vector<NearPair> pairs;
    find_near(moved, panels, pairs);
    Pairs result;
    for (const auto& pair : pairs) EXPECT_TRUE(result.insert({pair.row, pair.query}).second);
    return result;
  }
};

template <class T>
void expect_near_ones() {
  for (const auto& [rows, queries, columns] : {std::tuple{1, 1, 1}, {50, 7, 3}, {131, 40, 17}, {64, 33, 64}}) {
    for (const auto& [scale, mean] : {std::pair{1.0, 0.0}, {1e-3, 5.0}, {1e4, -1e3}}) {
      const Case<T> data(rows, queries, columns, scale, mean);
      // To the row in the middle: it lies on the very edge of the reach.
      std::vector<double> reach;
      for (std::int64_t query = 0; query < queries; ++query) reach.push_back(data.distance(rows / 2, query));
      const auto found = data.found(reach);
      std::int64_t needless = 0;
      for (std::int32_t row = 0; row < rows; ++row) {
        for (std::int32_t query = 0; query < queries; ++query) {
          const bool within = data.distance(row, query) <= reach[static_cast<std::size_t>(query)];
          EXPECT_TRUE(!within || found.contains({row, query})) << row << ", " << query;
          needless += !within && found.contains({row, query});
        }
      }
      EXPECT_LE(needless, 1 + rows * queries / 500) << columns << " columns, mean " << mean;
    }
  }
}

TEST(Near, FindsAllWithinReachAndHardlyMoreInDoubles) { expect_near_ones<double>(); }
TEST(Near, FindsAllWithinReachAndHardlyMoreInFloats) { expect_near_ones<float>(); }

TEST(Near, HasNoLimitAtFirst) {
  const Case<double> data(20, 11, 4, 1, 0);
  EXPECT_EQ(data.found({}).size(), 220U);
}

TEST(Near, FindsNothingForWhatIsDropped) {
  const Case<double> data(20, 11, 4, 1, 0);
  QueryPanels<double> panels(data.q.data(), 11, 4, data.shift.data());
  for (std::int64_t query = 0; query < 10; ++query) panels.drop(query);
  MovedRows<double> moved;
  moved.take(data.x.data(), 20, 4, data.shift.data());
  std::vector<NearPair> pairs;
  find_near(moved, panels, pairs);
  EXPECT_EQ(pairs.size(), 20U);
  for (const auto& pair : pairs) EXPECT_EQ(pair.query, 10);
}

TEST(Near, FindsWhatOverflowsOrUnderflows) {
  for (const double scale : {1e25, 1e-25}) {
    const Case<float> data(20, 11, 4, scale, 0);
    std::vector<double> reach;
    for (std::int64_t query = 0; query < 11; ++query) reach.push_back(data.distance(3, query));
    const auto found = data.found(reach);
    for (std::int32_t query = 0; query < 11; ++query) {
      for (std::int32_t row = 0; row < 20; ++row) {
        if (data.distance(row, query) <= reach[static_cast<std::size_t>(query)]) {
          EXPECT_TRUE(found.contains({row, query})) << scale;
        }
      }
    }
  }
}

/// Every instruction set that this processor has.
template <class T>
void expect_same_pairs() {
  const Case<T> data(300, 77, 21, 1, 2);
  const std::vector<double> reach(77, 30.0);
  hwy::SetSupportedTargetsForTest(0);
  const auto best = data.found(reach);
  EXPECT_GT(best.size(), 100U);
  for (std::int64_t targets = hwy::SupportedTargets(); targets != 0; targets &= targets - 1) {
    hwy::SetSupportedTargetsForTest(targets & -targets);
    EXPECT_EQ(data.found(reach), best) << hwy::TargetName(targets & -targets);
  }
  hwy::SetSupportedTargetsForTest(0);
}

TEST(Near, FindsTheSameWithAnyVectorsInDoubles) { expect_same_pairs<double>(); }
TEST(Near, FindsTheSameWithAnyVectorsInFloats) { expect_same_pairs<float>(); }

}  // namespace
}  // namespace lockstep::ml
