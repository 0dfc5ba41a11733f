#include "lockstep/ml/quantiles.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "lockstep/ml/testing.h"

namespace lockstep::ml {
namespace {

using testing::blobs;
using testing::kRanksAndThreads;
using testing::with_table;

const std::vector<double> kShares = {0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1};

/// How far the share of values below a quantile is from what was wanted; equal values count as on either side.
double largest_error(const at::Tensor& x, const at::Tensor& found) {
  double worst = 0;
  for (std::int64_t column = 0; column < x.size(1); ++column) {
    const auto sorted = std::get<0>(x.select(1, column).contiguous().sort());
    const double* begin = sorted.const_data_ptr<double>();
    const double* end = begin + sorted.numel();
    for (std::size_t i = 0; i < kShares.size(); ++i) {
      const double value = found[static_cast<std::int64_t>(i)][column].item<double>();
      const auto rows = static_cast<double>(sorted.numel());
      const double below = static_cast<double>(std::lower_bound(begin, end, value) - begin) / rows;
      const double upto = static_cast<double>(std::upper_bound(begin, end, value) - begin) / rows;
      worst = std::max({worst, below - kShares[i], kShares[i] - upto});
    }
  }
  return worst;
}

at::Tensor found_in(const at::Tensor& x) {
  at::Tensor result;
  with_table(1, {x}, [&](const Table& table) { result = quantiles(table, 2, kShares); });
  return result;
}

TEST(Quantiles, OfFewRowsAreExact) {
  const auto x = blobs(1024, 5, 3), shares = at::tensor(kShares, at::kDouble);
  with_table(3, {x}, [&](const Table& table) {
    EXPECT_TRUE(at::allclose(quantiles(table, 2, kShares), at::quantile(x, shares, 0), 1e-14));
  });
}

TEST(Quantiles, OfManyRowsAreNearInRank) {
  const auto rows = at::arange(200'000, at::kDouble);
  const auto x = at::stack({blobs(200'000, 1, 3).select(1, 0).exp(),       // a long tail
                            rows,                                          // in order
                            -rows,                                         // against it
                            (rows * 0.001).sin(),                          // in waves
                            rows.remainder(7),                             // few values
                            at::where(rows.lt(150'000), rows * 0, rows)},  // one value most of the time
                           1);
  EXPECT_LT(largest_error(x, found_in(x)), 0.003);
}

TEST(Quantiles, OfRowsThatAreNotAllLookedAtAreNear) {
  const auto rows = at::arange(1'100'000, at::kDouble);
  const auto x =
      at::stack({blobs(1'100'000, 1, 3).select(1, 0), rows, rows.remainder(4)}, 1);  // a period of the choice
  EXPECT_LT(largest_error(x, found_in(x)), 0.005);
}

TEST(Quantiles, LeaveOutWhatIsNotThere) {
  auto x = blobs(30'000, 3, 2);
  const auto whole = x.clone();
  x.select(1, 1).slice(0, 0, 20'000).fill_(std::numeric_limits<double>::quiet_NaN());
  x.select(1, 2).fill_(std::numeric_limits<double>::infinity());
  with_table(2, {x}, [&](const Table& table) {
    const auto found = quantiles(table, 1, kShares);
    EXPECT_LT(largest_error(whole.slice(0, 20'000).slice(1, 1, 2), found.slice(1, 1, 2)), 0.003);
    EXPECT_TRUE(found.select(1, 2).isnan().all().item<bool>());
  });
  const auto weights = at::arange(30'000, at::kLong).remainder(2);  // rows of weight 0 are not there
  const auto there = whole.slice(0, 1, 30'000, 2);
  with_table(2, {whole, {}, weights},
             [&](const Table& table) { EXPECT_LT(largest_error(there, quantiles(table, 1, kShares)), 0.003); });
}

TEST(Quantiles, HaveTheSameBitsOnAnyNumberOfRanksAndThreads) {
  auto x = blobs(300'001, 3, 3);
  x[20'000][1] = std::numeric_limits<double>::quiet_NaN();
  for (const auto type : {at::kDouble, at::kFloat}) {
    at::Tensor first;
    for (const auto& [ranks, threads] : kRanksAndThreads) {
      with_table(ranks, {x.to(type)}, [&, threads = threads](const Table& table) {
        const auto found = quantiles(table, threads, kShares);
        if (table.group().rank() == 0 && !first.defined()) first = found;
        EXPECT_TRUE(at::equal(found, first)) << table.group().size() << " ranks, " << threads << " threads";
      });
    }
  }
}

TEST(Quantiles, OfWideTablesKeepFewerValues) {
  EXPECT_EQ(sketch_values(1), 1024);
  EXPECT_EQ(sketch_values(512), 1024);
  EXPECT_EQ(sketch_values(513), 512);
  EXPECT_EQ(sketch_values(1'000'000), 128);
}

}  // namespace
}  // namespace lockstep::ml
