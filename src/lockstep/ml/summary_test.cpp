#include "lockstep/ml/summary.h"

#include <limits>

#include <gtest/gtest.h>

#include "lockstep/core/testing.h"
#include "lockstep/ml/testing.h"

namespace lockstep::ml {
namespace {

using testing::blobs;
using testing::kRanksAndThreads;
using testing::with_table;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// With gaps in some blocks, and a column whose first block is empty.
at::Tensor with_gaps(std::int64_t rows) {
  auto x = blobs(rows, 5, 3, 1, 1000);
  x.select(1, 2).slice(0, 0, 9000).fill_(kNan);
  for (std::int64_t row = 20'000; row < rows; row += 7) x[row][row % 5] = row % 2 == 0 ? kNan : -1 / 0.0;
  return x;
}

TEST(Summary, CountsWhatIsMissing) {
  const auto x = with_gaps(30'000), there = x.isfinite();
  const auto complete = x.index({there.all(1)});
  for (const auto type : {at::kDouble, at::kFloat}) {
    with_table(3, {x.to(type), {}, {}}, [&](const Table& table) {
      const auto found = summary(table, {.threads = 2});
      const auto rows = x.to(type).to(at::kDouble);
      EXPECT_TRUE(at::equal(found.moments.count, there.sum(0).to(at::kDouble)));
      EXPECT_TRUE(at::equal(found.moments.missing, x.isnan().sum(0).to(at::kDouble)));
      EXPECT_TRUE(at::equal(found.moments.infinite, x.isinf().sum(0).to(at::kDouble)));
      EXPECT_EQ(found.complete, complete.size(0));
      ASSERT_TRUE(found.gram);
      const auto taken = rows.index({there.all(1)}), mean = taken.mean(0);
      EXPECT_EQ(found.gram->weight, static_cast<double>(complete.size(0)));
      EXPECT_TRUE(at::allclose(found.gram->mean, mean, 1e-13));
      const auto products = (taken - mean).t().mm(taken - mean);
      EXPECT_LT(((found.gram->centred - products).abs().max() / products.abs().max()).item<double>(), 1e-11);
      const auto first = rows.select(1, 0).index({there.select(1, 0)});
      EXPECT_NEAR(found.moments.mean[0].item<double>(), first.mean().item<double>(), 1e-9);
      const double median = first.median().item<double>(), spread = first.std().item<double>();
      EXPECT_NEAR(found.quantiles[1][0].item<double>(), median, 0.02 * spread);
    });
  }
}

TEST(Summary, LeavesOutRowsOfWeightZero) {
  const auto x = blobs(20'000, 3, 2), weights = at::arange(20'000, at::kDouble).remainder(3);
  with_table(2, {x, x.select(1, 0), weights}, [&](const Table& table) {  // a target is no column
    const auto found = summary(table);
    EXPECT_EQ(found.complete, weights.gt(0).sum().item<std::int64_t>());
    const auto w = weights.unsqueeze(1), mean = (x * w).sum(0) / w.sum();
    EXPECT_TRUE(at::allclose(found.gram->mean, mean, 1e-12));
    EXPECT_TRUE(at::allclose(found.gram->centred, (x - mean).t().mm((x - mean) * w), 1e-10));
    EXPECT_TRUE(at::allclose(found.gram->centred.diagonal(), found.moments.squares, 1e-10));
  });
}

TEST(Summary, OfRowsThatAllHaveGapsHasNoProducts) {
  auto x = blobs(500, 3, 2);
  x.select(1, 1).fill_(kNan);
  with_table(2, {x}, [&](const Table& table) {
    const auto found = summary(table);
    EXPECT_EQ(found.complete, 0);
    EXPECT_FALSE(found.gram);
    EXPECT_EQ(found.moments.count[0].item<double>(), 500);
    EXPECT_FALSE(summary(table, {.products = false}).gram);
  });
}

TEST(Summary, HasTheSameBitsOnAnyNumberOfRanksAndThreads) {
  const auto x = with_gaps(30'001);
  for (const auto type : {at::kDouble, at::kFloat}) {
    at::Tensor first;
    for (const auto& [ranks, threads] : kRanksAndThreads) {
      with_table(ranks, {x.to(type)}, [&, threads = threads](const Table& table) {
        const auto found = summary(table, {.threads = threads});
        const auto all = at::cat({found.moments.mean, found.moments.squares, found.quantiles.view({-1}),
                                  found.gram->mean, found.gram->centred.reshape({-1})});
        if (table.group().rank() == 0 && !first.defined()) first = all;
        EXPECT_TRUE(at::equal(all, first)) << table.group().size() << " ranks, " << threads << " threads";
      });
    }
  }
}

TEST(Summary, RefusesWhatIsNoShare) {
  with_table(2, {blobs(50, 3, 2)}, [](const Table& table) {
    EXPECT_EQ(test::message_of([&] { summary(table, {.quantiles = {0.5, 50}}); }), "quantile 50: it is from 0 to 1");
  });
}

}  // namespace
}  // namespace lockstep::ml
