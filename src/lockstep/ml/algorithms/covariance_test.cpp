#include "lockstep/ml/algorithms/covariance.h"

#include <cmath>
#include <limits>
#include <numbers>

#include <gtest/gtest.h>

#include "lockstep/core/testing.h"
#include "lockstep/ml/testing.h"

namespace lockstep::ml {
namespace {

using testing::blobs;
using testing::kRanksAndThreads;
using testing::with_table;

TEST(EmpiricalCovariance, IsThatOfTheColumns) {
  const auto x = blobs(12'000, 6, 3, 1, 500);
  with_table(3, {x, x.select(1, 0)}, [&](const Table& table) {  // a target is no column
    EmpiricalCovariance biased, estimate({.ddof = 1}), around_zero({.assume_centered = true});
    for (auto* one : {&biased, &estimate, &around_zero}) one->fit(table);
    EXPECT_TRUE(at::allclose(estimate.covariance(), at::cov(x.t()), 1e-10));
    EXPECT_TRUE(at::allclose(biased.covariance(), at::cov(x.t(), 0), 1e-10));
    EXPECT_TRUE(at::allclose(around_zero.covariance(), x.t().mm(x) / 12'000, 1e-12));
    EXPECT_TRUE(at::allclose(biased.location(), x.mean(0), 1e-13));
    EXPECT_EQ(around_zero.location().abs().max().item<double>(), 0);
    EXPECT_TRUE(at::allclose(biased.correlation(), at::corrcoef(x.t()), 1e-10));
    EXPECT_TRUE(at::allclose(biased.precision(), at::linalg_inv(biased.covariance()), 1e-9));
  });
}

TEST(EmpiricalCovariance, CountsWeightsAsRows) {
  const auto x = blobs(3000, 3, 2), times = at::arange(3000, at::kLong).remainder(3);
  with_table(2, {x, {}, times}, [&](const Table& table) {
    EmpiricalCovariance covariance({.ddof = 1});
    covariance.fit(table);
    EXPECT_TRUE(at::allclose(covariance.covariance(), at::cov(x.repeat_interleave(times, 0).t()), 1e-11));
  });
}

TEST(EmpiricalCovariance, MeasuresHowFarRowsLie) {
  const auto x = blobs(4000, 4, 2), other = blobs(500, 4, 3, 9);
  const auto mean = x.mean(0), precision = at::linalg_inv(at::cov(x.t(), 0));
  const auto distances = ((other - mean).mm(precision) * (other - mean)).sum(1);
  EmpiricalCovariance covariance;
  with_table(2, {x}, [&](const Table& table) {
    EmpiricalCovariance own;
    own.fit(table);
    if (table.group().rank() == 0) covariance = own;
  });
  EXPECT_TRUE(at::allclose(covariance.mahalanobis(other), distances, 1e-10));
  const double expected = -0.5 * (distances.mean().item<double>() - at::logdet(precision).item<double>() +
                                  4 * std::log(2 * std::numbers::pi));
  with_table(3, {other}, [&](const Table& table) { EXPECT_NEAR(covariance.score(table), expected, 1e-10); });
}

TEST(EmpiricalCovariance, OfConstantAndDependentColumnsIsSingular) {
  auto x = blobs(4000, 4, 2);
  x.select(1, 1).fill_(0.1);
  x.select(1, 3).copy_(x.select(1, 0) * 2 - x.select(1, 2));
  with_table(2, {x}, [&](const Table& table) {
    EmpiricalCovariance covariance;
    covariance.fit(table);
    const auto correlation = covariance.correlation();
    EXPECT_TRUE(correlation[1].isnan().all().item<bool>());
    EXPECT_EQ(correlation[2][2].item<double>(), 1);
    EXPECT_EQ(covariance.covariance()[1].abs().max().item<double>(), 0);
    EXPECT_TRUE(at::allclose(covariance.precision(), at::linalg_pinv(covariance.covariance(), 1e-12), 1e-8, 1e-10));
    EXPECT_EQ(covariance.score(table), -std::numeric_limits<double>::infinity());
  });
}

TEST(EmpiricalCovariance, TakesTablesOneAfterAnother) {
  const auto x = blobs(9000, 3, 2, 1, 40);
  EmpiricalCovariance parts;
  with_table(1, {x.slice(0, 0, 2000)}, [&](const Table& table) { parts.partial_fit(table); });
  with_table(1, {x.slice(0, 2000)}, [&](const Table& table) { parts.partial_fit(table); });
  EXPECT_TRUE(at::allclose(parts.covariance(), at::cov(x.t(), 0), 1e-11));
  EXPECT_TRUE(at::allclose(parts.location(), x.mean(0), 1e-14));
}

TEST(EmpiricalCovariance, HasTheSameBitsOnAnyNumberOfRanksAndThreads) {
  const auto x = blobs(30'001, 9, 3);
  for (const auto type : {at::kDouble, at::kFloat}) {
    at::Tensor first;
    for (const auto& [ranks, threads] : kRanksAndThreads) {
      with_table(ranks, {x.to(type)}, [&, threads = threads](const Table& table) {
        EmpiricalCovariance covariance({.threads = threads});
        covariance.fit(table);
        const auto all = at::cat({covariance.covariance(), covariance.precision(), covariance.correlation()});
        if (table.group().rank() == 0 && !first.defined()) first = all;
        EXPECT_TRUE(at::equal(all, first)) << table.group().size() << " ranks, " << threads << " threads";
      });
    }
  }
}

TEST(EmpiricalCovariance, IsReadFromItsFile) {
  const test::TemporaryFolder folder;
  const auto x = blobs(500, 3, 2);
  with_table(1, {x, {}, {}, {"a", "b", "c"}}, [&](const Table& table) {
    EmpiricalCovariance covariance({.ddof = 1});
    covariance.fit(table);
    write_model(folder / "model", covariance.file(table));
    const auto file = read_model(folder / "model");
    EXPECT_EQ(file.columns, (std::vector<std::string>{"a", "b", "c"}));
    EXPECT_TRUE(at::equal(EmpiricalCovariance::from(file).mahalanobis(x), covariance.mahalanobis(x)));
    EXPECT_EQ(test::message_of([&] { EmpiricalCovariance::from(file).partial_fit(table); }),
              "a model from a file has not the sums of its rows, which more rows are added to: call fit()");
  });
}

TEST(EmpiricalCovariance, RefusesWhatMakesNoSense) {
  with_table(2, {blobs(1, 3, 1)}, [](const Table& table) {
    EXPECT_EQ(test::message_of([&] { EmpiricalCovariance({.ddof = 1}).fit(table); }),
              "rows that weigh 1 are too few for ddof = 1");
  });
  auto x = blobs(10'000, 3, 2);
  x[9000][2] = std::numeric_limits<double>::quiet_NaN();
  with_table(2, {x}, [](const Table& table) {
    EXPECT_EQ(test::message_of([&] { EmpiricalCovariance().fit(table); }, Fault::Data),
              "row 9000, column 2 is no finite number; clean the data, or use --missing mean or drop");
  });
}

}  // namespace
}  // namespace lockstep::ml
