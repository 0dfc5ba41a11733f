#include "lockstep/ml/algorithms/dbscan.h"

#include <limits>
#include <thread>

#include <gtest/gtest.h>

#include "lockstep/core/testing.h"
#include "lockstep/ml/own_rows.h"
#include "lockstep/ml/squared_distance.h"
#include "lockstep/ml/testing.h"
#include "lockstep/ml/union_find.h"

namespace lockstep::ml {
namespace {

using testing::blobs;
using testing::kRanksAndThreads;
using testing::with_table;

struct Found {
  std::vector<std::int64_t> labels;
  std::vector<bool> core;
  std::int64_t clusters = 0;
  bool operator==(const Found&) const = default;
};

/// As scikit-learn does it: clusters grow one after another from the first core row that has none.
Found by_definition(const TableRows& rows, const DBSCANOptions& options) {
  const auto x = rows.x.to(at::kDouble).contiguous();
  const std::int64_t count = x.size(0), columns = x.size(1);
  const auto near = [&](std::int64_t one, std::int64_t other) {
    const double* values = x.const_data_ptr<double>();
    return squared_distance(values + one * columns, values + other * columns, columns) <= options.eps * options.eps;
  };
  Found found{std::vector<std::int64_t>(static_cast<std::size_t>(count), -1),
              std::vector<bool>(static_cast<std::size_t>(count))};
  for (std::int64_t row = 0; row < count; ++row) {
    double weight = 0;
    for (std::int64_t other = 0; other < count; ++other) {
      if (near(row, other)) weight += rows.weights.defined() ? rows.weights[other].item<double>() : 1;
    }
    found.core[static_cast<std::size_t>(row)] = weight >= static_cast<double>(options.min_samples);
  }
  for (std::int64_t row = 0; row < count; ++row) {
    if (found.labels[static_cast<std::size_t>(row)] >= 0 || !found.core[static_cast<std::size_t>(row)]) continue;
    std::vector<std::int64_t> waiting{row};
    while (!waiting.empty()) {
      const std::int64_t one = waiting.back();
      waiting.pop_back();
      auto& label = found.labels[static_cast<std::size_t>(one)];
      if (label >= 0) continue;
      label = found.clusters;
      if (!found.core[static_cast<std::size_t>(one)]) continue;
      for (std::int64_t other = 0; other < count; ++other) {
        if (found.labels[static_cast<std::size_t>(other)] < 0 && near(one, other)) waiting.push_back(other);
      }
    }
    ++found.clusters;
  }
  return found;
}

Found found_by(int ranks, const TableRows& rows, const DBSCANOptions& options) {
  Found found;
  with_table(ranks, rows, [&](const Table& table) {
    DBSCAN dbscan(options);
    dbscan.fit(table);
    const auto labels = gather_rows(table, dbscan.labels()), core = gather_rows(table, dbscan.core());
    if (table.group().rank() != 0) return;
    found.labels.assign(labels.const_data_ptr<std::int64_t>(), labels.const_data_ptr<std::int64_t>() + labels.numel());
    found.core.assign(core.const_data_ptr<bool>(), core.const_data_ptr<bool>() + core.numel());
    found.clusters = dbscan.n_clusters();
  });
  return found;
}

void expect_as_defined(const TableRows& rows, DBSCANOptions options, const std::string& what) {
  const auto expected = by_definition(rows, options);
  for (const auto& [ranks, threads] : kRanksAndThreads) {
    options.threads = threads;
    const auto found = found_by(ranks, rows, options);
    EXPECT_EQ(found.clusters, expected.clusters) << what << " on " << ranks << " ranks";
    EXPECT_TRUE(found == expected) << what << " on " << ranks << " ranks, " << threads << " threads";
  }
}

TEST(DBSCAN, FindsClustersAndBordersByDefinitionOnAnyNumberOfRanksAndThreads) {
  // Up to 4 columns by cells, more by products.
  for (const auto& [columns, eps] : {std::pair{1, 0.005}, {2, 0.25}, {3, 0.6}, {4, 0.9}, {7, 2.0}}) {
    const auto x = blobs(1500, columns, 5, 3, 100);
    const auto expected = by_definition({x}, {.eps = eps});
    EXPECT_GT(expected.clusters, 2) << columns;
    EXPECT_GT(std::count(expected.labels.begin(), expected.labels.end(), -1), 20) << columns;
    expect_as_defined({x}, {.eps = eps}, std::to_string(columns) + " columns");
    expect_as_defined({x.to(at::kFloat)}, {.eps = eps, .min_samples = 3}, "float32");
  }
}

TEST(DBSCAN, CountsWeights) {
  for (const int columns : {2, 5}) {
    const auto x = blobs(800, columns, 3, 7);
    // Sums of tenths: that they reach 3 or not is a matter of their last bits.
    const auto weights = at::arange(800, at::kDouble).remainder(7) * 0.1;
    expect_as_defined({x, {}, weights}, {.eps = columns == 2 ? 0.4 : 1.5, .min_samples = 3}, "weighted");
  }
}

TEST(DBSCAN, TakesRowsAtTheVeryEdgeOfReach) {
  // A grid of points, each exactly eps from the next, and many of them equal.
  for (const int columns : {1, 2, 3, 4, 6}) {
    const auto x = blobs(600, columns, 2, 5).round() * 0.25;
    expect_as_defined({x}, {.eps = 0.25, .min_samples = 4}, "on a grid");
    expect_as_defined({x}, {.eps = 0.2499999, .min_samples = 4}, "just apart");
  }
}

TEST(DBSCAN, GivesBordersToTheFirstOfTheirClusters) {
  // 0 is near to core rows on both sides; the right ones come first.
  const auto x = at::tensor({1.0, 1.1, 1.2, 1.3, -1.0, -1.1, -1.2, -1.3, 0.0}, at::kDouble).view({-1, 1});
  const auto found = found_by(2, {x}, {.eps = 1, .min_samples = 4});
  EXPECT_EQ(found.clusters, 2);
  EXPECT_EQ(found.labels, (std::vector<std::int64_t>{0, 0, 0, 0, 1, 1, 1, 1, 0}));
  EXPECT_FALSE(found.core[8]);
}

TEST(DBSCAN, WorksOnWhatIsAllNearOrAllApart) {
  const auto x = blobs(500, 3, 4);
  for (const double eps : {1e-9, 1e9, 1e200}) expect_as_defined({x}, {.eps = eps}, std::to_string(eps));
  expect_as_defined({at::zeros({300, 2}, at::kDouble)}, {}, "equal rows");
  // More cells along an axis than are counted.
  expect_as_defined({at::cat({x, x * 1e12})}, {.eps = 0.7}, "far apart");
  EXPECT_EQ(found_by(1, {blobs(3, 2, 1)}, {.eps = 100}).clusters, 0);
  EXPECT_EQ(found_by(1, {blobs(3, 2, 1)}, {.eps = 100, .min_samples = 3}).clusters, 1);
}

TEST(DBSCAN, FollowsLongChainsOverAllRanks) {
  // A spiral through the slabs of all ranks, in an order that has nothing to do with it.
  const std::int64_t count = 9000;
  const auto turn = at::arange(count, at::kDouble) * 7919 % count * 0.004;
  const auto x = at::stack({turn * turn.cos(), turn * turn.sin()}, 1);
  for (const int ranks : {1, 3, 8}) {
    const auto found = found_by(ranks, {x}, {.eps = 0.5, .min_samples = 2});
    EXPECT_EQ(found.clusters, 1) << ranks;
    EXPECT_EQ(found.labels, std::vector<std::int64_t>(static_cast<std::size_t>(count), 0));
  }
}

TEST(DBSCAN, RefusesWhatMakesNoSense) {
  EXPECT_EQ(test::message_of([] { DBSCAN dbscan({.eps = 0}); }), "eps = 0: it is a finite number above 0");
  EXPECT_EQ(test::message_of([] { DBSCAN dbscan({.min_samples = 0}); }), "min_samples = 0: it is from 1 on");
  auto x = blobs(20'000, 2, 3);
  x[9000][1] = std::numeric_limits<double>::quiet_NaN();
  with_table(3, {x}, [&](const Table& table) {
    EXPECT_EQ(test::message_of([&] { DBSCAN().fit(table); }, Fault::Data),
              "row 9000, column 1 is no finite number; clean the data, or use --missing mean or drop");
  });
  with_table(2, {blobs(100, 2, 3), {}, at::zeros({100})}, [&](const Table& table) {
    EXPECT_EQ(test::message_of([&] { DBSCAN().fit(table); }, Fault::Data),
              "the weights of all rows are 0; leave --weights out, or name another field");
  });
}

TEST(UnionFind, UnitesOnSeveralThreads) {
  constexpr std::int32_t kCount = 30'000;
  UnionFind sets(kCount);
  std::vector<std::thread> threads;
  // Each unites numbers with equal remainders by 7, in an order of its own.
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::int32_t i = 0; i < kCount - 7; ++i) {
        const std::int32_t one = thread % 2 == 0 ? i : kCount - 8 - i;
        sets.unite(one, one + 7);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (std::int32_t i = 0; i < kCount; ++i) ASSERT_EQ(sets.find(i), i % 7);
}

}  // namespace
}  // namespace lockstep::ml
