#include "lockstep/ml/moments.h"

#include <limits>

#include <gtest/gtest.h>

#include "lockstep/ml/testing.h"

namespace lockstep::ml {
namespace {

using testing::blobs;
using testing::kRanksAndThreads;
using testing::with_table;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinite = std::numeric_limits<double>::infinity();

TEST(Moments, AreThoseOfTheColumns) {
  const auto x = blobs(20'000, 5, 3, 1, 1e5);
  const auto some = at::arange(20'000, at::kDouble).sin().clamp_min(0);  // half of them 0
  for (const bool weighted : {false, true}) {
    const auto w = (weighted ? some : at::ones({20'000}, at::kDouble)).unsqueeze(1);
    const auto mean = (x * w).sum(0) / w.sum();
    const auto variance = ((x - mean).square() * w).sum(0) / w.sum();
    const auto rows = x.index({w.select(1, 0).gt(0)});
    with_table(3, {x, {}, weighted ? some : at::Tensor()}, [&](const Table& table) {
      const auto found = moments(table, 2);
      EXPECT_NEAR(found.weight / w.sum().item<double>(), 1, 1e-13);
      EXPECT_EQ(found.count[0].item<double>(), static_cast<double>(rows.size(0)));
      EXPECT_TRUE(at::allclose(found.mean, mean, 1e-14, 0));
      EXPECT_TRUE(at::allclose(found.sum, mean * w.sum(), 1e-13, 0));
      EXPECT_TRUE(at::allclose(found.variance(), variance, 1e-11, 0));
      EXPECT_TRUE(at::allclose(found.variance(1), variance * w.sum() / (w.sum() - 1), 1e-11, 0));
      EXPECT_TRUE(at::equal(found.min, rows.amin(0)));
      EXPECT_TRUE(at::equal(found.max, rows.amax(0)));
    });
  }
}

TEST(Moments, LeaveOutWhatIsNotFinite) {
  auto x = blobs(30'000, 4, 2);
  x.select(1, 1).slice(0, 0, 20'000).fill_(kNan);  // more than whole blocks
  x.select(1, 2).fill_(kNan);
  x[17][3] = kInfinite;
  x[25'000][3] = -kInfinite;
  x[29'999][3] = kNan;
  with_table(2, {x}, [&](const Table& table) {
    const auto found = moments(table, 2);
    EXPECT_TRUE(at::equal(found.count, at::tensor({30'000, 10'000, 0, 29'997}, at::kDouble)));
    EXPECT_TRUE(at::equal(found.missing, at::tensor({0, 20'000, 30'000, 1}, at::kDouble)));
    EXPECT_TRUE(at::equal(found.infinite, at::tensor({0, 0, 0, 2}, at::kDouble)));
    const auto rest = x.select(1, 1).slice(0, 20'000);
    EXPECT_NEAR(found.mean[1].item<double>(), rest.mean().item<double>(), 1e-12);
    EXPECT_NEAR(found.variance(1)[1].item<double>(), rest.var().item<double>(), 1e-11);
    EXPECT_EQ(found.min[1].item<double>(), rest.min().item<double>());
    EXPECT_TRUE(found.mean[2].isnan().item<bool>());
    EXPECT_TRUE(found.max[2].isnan().item<bool>());
    EXPECT_TRUE(found.mean[3].isfinite().item<bool>());
  });
}

TEST(Moments, OfWholeNumbersHaveExactSums) {
  const auto x = at::arange(100'000, at::kDouble).view({-1, 2});
  with_table(2, {x}, [&](const Table& table) {
    EXPECT_TRUE(at::equal(moments(table, 2).sum, at::tensor({2'499'950'000.0, 2'500'000'000.0}, at::kDouble)));
  });
}

TEST(Moments, HaveTheSameBitsOnAnyNumberOfRanksAndThreads) {
  auto x = blobs(30'001, 7, 3) * 1e3;
  x[20'000][3] = kNan;
  for (const auto type : {at::kDouble, at::kFloat}) {
    Moments first;
    for (const auto& [ranks, threads] : kRanksAndThreads) {
      with_table(ranks, {x.to(type)}, [&, threads = threads](const Table& table) {
        const auto found = moments(table, threads);
        if (table.group().rank() == 0 && !first.mean.defined()) first = found;
        EXPECT_TRUE(at::equal(found.mean, first.mean)) << table.group().size() << " ranks, " << threads << " threads";
        EXPECT_TRUE(at::equal(found.squares, first.squares));
        EXPECT_TRUE(at::equal(found.sum, first.sum));
      });
    }
  }
}

TEST(Moments, OfTwoTablesAreThoseOfAllRows) {
  auto x = blobs(9000, 3, 2, 1, 20);
  x.select(1, 1).slice(0, 0, 4000).fill_(kNan);
  const auto of = [](const at::Tensor& rows) {
    Moments result;
    with_table(1, {rows}, [&](const Table& table) { result = moments(table, 1); });
    return result;
  };
  const auto whole = of(x), parts = both(of(x.slice(0, 0, 4000)), of(x.slice(0, 4000)));
  EXPECT_EQ(parts.weight, 9000);
  EXPECT_TRUE(at::equal(parts.count, whole.count));
  EXPECT_TRUE(at::equal(parts.missing, whole.missing));
  EXPECT_TRUE(at::allclose(parts.mean, whole.mean, 1e-14));
  EXPECT_TRUE(at::allclose(parts.variance(), whole.variance(), 1e-12));
  EXPECT_TRUE(at::equal(parts.max, whole.max));
}

}  // namespace
}  // namespace lockstep::ml
