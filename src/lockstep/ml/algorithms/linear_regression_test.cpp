#include "lockstep/ml/algorithms/linear_regression.h"

#include <gtest/gtest.h>

#include "lockstep/core/testing.h"
#include "lockstep/ml/testing.h"

namespace lockstep::ml {
namespace {

using testing::blobs;
using testing::kRanksAndThreads;
using testing::with_table;

/// Least squares of least norm, by the singular values of the centred rows.
LinearModel by_definition(const at::Tensor& x, const at::Tensor& y, const at::Tensor& weights, bool fit_intercept) {
  const auto w = weights.unsqueeze(1);
  const auto x_mean = fit_intercept ? (x * w).sum(0) / w.sum() : at::zeros({x.size(1)}, at::kDouble);
  const auto y_mean = fit_intercept ? (y * w).sum(0) / w.sum() : at::zeros({y.size(1)}, at::kDouble);
  const auto coef = at::linalg_pinv((x - x_mean) * w.sqrt(), 1e-12).mm((y - y_mean) * w.sqrt()).t();
  return {coef, y_mean - coef.mv(x_mean)};
}

double difference(const LinearModel& one, const LinearModel& other) {
  return std::max(((one.coef - other.coef).norm() / other.coef.norm()).item<double>(),
                  ((one.intercept - other.intercept).abs() / (1 + other.intercept.abs())).max().item<double>());
}

TEST(LinearRegression, IsLeastSquares) {
  const auto x = blobs(12'000, 7, 3, 1, 50), noise = blobs(12'000, 2, 1, 2);
  const auto y = at::stack({x.select(1, 0) * 3 - x.select(1, 5) + 7, x.select(1, 2) * 0.01}, 1) + noise;
  const auto some = at::arange(12'000, at::kDouble).cos() + 1;
  for (const bool fit_intercept : {true, false}) {
    for (const bool weighted : {false, true}) {
      const auto weights = weighted ? some : at::ones({12'000}, at::kDouble);
      const auto expected = by_definition(x, y, weights, fit_intercept);
      with_table(3, {x, y, weighted ? some : at::Tensor()}, [&](const Table& table) {
        LinearRegression regression({.fit_intercept = fit_intercept});
        regression.fit(table);
        EXPECT_LT(difference(regression.model(), expected), 1e-10) << fit_intercept << weighted;
        EXPECT_TRUE(regression.undetermined().empty());
        const auto left = ((y - regression.predict(x)).square() * weights.unsqueeze(1)).sum(0);
        const auto mean = (y * weights.unsqueeze(1)).sum(0) / weights.sum();
        const auto total = ((y - mean).square() * weights.unsqueeze(1)).sum(0);
        EXPECT_NEAR(regression.score(table), (1 - left / total).mean().item<double>(), 1e-9);
      });
    }
  }
}

TEST(LinearRegression, OfDependentColumnsHasTheLeastNorm) {
  auto x = blobs(5000, 6, 2);
  x.select(1, 2).fill_(4.25);                                   // constant
  x.select(1, 5).copy_(x.select(1, 0) * 100 + x.select(1, 1));  // depends on two others
  const auto y = (x.select(1, 0) + x.select(1, 3) + blobs(5000, 1, 1, 9).select(1, 0)).unsqueeze(1);
  const auto expected = by_definition(x, y, at::ones({5000}, at::kDouble), true);
  with_table(2, {x, y, {}, {"a", "b", "c", "d", "e", "f"}}, [&](const Table& table) {
    LinearRegression regression;
    regression.fit(table);
    EXPECT_LT(difference(regression.model(), expected), 1e-8);
    EXPECT_EQ(regression.undetermined(), (std::vector<std::string>{"'a'", "'b'", "'c'", "'f'"}));
  });
}

TEST(LinearRegression, GoesThroughTheOriginFromFarColumns) {
  auto x = blobs(5000, 6, 2, 1, 1e4);
  x.select(1, 2).fill_(100);                 // explains what an intercept would
  x.select(1, 5).copy_(x.select(1, 0) * 2);  // depends on another
  const auto y = (x.select(1, 0) + x.select(1, 3) + blobs(5000, 1, 1, 9).select(1, 0)).unsqueeze(1);
  with_table(2, {x, y}, [&](const Table& table) {
    LinearRegression regression({.fit_intercept = false});
    regression.fit(table);
    EXPECT_LT(difference(regression.model(), by_definition(x, y, at::ones({5000}, at::kDouble), false)), 1e-9);
    EXPECT_EQ(regression.undetermined(), (std::vector<std::string>{"column 0", "column 5"}));
    // A penalty is as a row more for each column.
    const auto penalised = at::cat({x, at::eye(6, at::kDouble) * 5}),
               zeros = at::cat({y, at::zeros({6, 1}, at::kDouble)});
    EXPECT_LT(difference(regression.path(table, {25})[0],
                         by_definition(penalised, zeros, at::ones({5006}, at::kDouble), false)),
              1e-9);
  });
}

TEST(LinearRegression, RidgeSolvesThePenalisedEquations) {
  const auto x = blobs(5000, 5, 2, 1, 3), y = (x.select(1, 1) - 2 * x.select(1, 4)).unsqueeze(1) + blobs(5000, 1, 1, 3);
  const auto centred = x - x.mean(0);
  const std::vector<double> alphas{0.1, 10, 1e4};
  with_table(3, {x, y}, [&](const Table& table) {
    const auto models = LinearRegression().path(table, alphas);
    for (std::size_t i = 0; i < alphas.size(); ++i) {
      const auto system = centred.t().mm(centred) + alphas[i] * at::eye(5, at::kDouble);
      const auto coef = at::linalg_solve(system, centred.t().mm(y - y.mean(0))).t();
      EXPECT_LT(difference(models[i], {coef, y.mean(0) - coef.mv(x.mean(0))}), 1e-11) << alphas[i];
      LinearRegression alone({.alpha = alphas[i]});
      alone.fit(table);
      EXPECT_TRUE(at::equal(alone.model().coef, models[i].coef));
    }
  });
}

TEST(LinearRegression, HasTheSameBitsOnAnyNumberOfRanksAndThreads) {
  const auto x = blobs(30'001, 12, 3), y = x.select(1, 3).sin();
  for (const double alpha : {0.0, 2.5}) {
    LinearModel first;
    for (const auto& [ranks, threads] : kRanksAndThreads) {
      with_table(ranks, {x, y}, [&, threads = threads](const Table& table) {
        LinearRegression regression({.alpha = alpha, .threads = threads});
        regression.fit(table);
        if (table.group().rank() == 0 && !first.coef.defined()) first = regression.model();
        EXPECT_TRUE(at::equal(regression.model().coef, first.coef));
        EXPECT_TRUE(at::equal(regression.model().intercept, first.intercept));
      });
    }
  }
}

TEST(LinearRegression, IsReadFromItsFile) {
  const test::TemporaryFolder folder;
  const auto x = blobs(500, 3, 2), y = x.select(1, 0);
  with_table(1, {x, y, {}, {"a", "b", "c"}}, [&](const Table& table) {
    LinearRegression regression;
    regression.fit(table);
    write_model(folder / "model", regression.file(table));
    const auto file = read_model(folder / "model");
    EXPECT_EQ(file.columns, (std::vector<std::string>{"a", "b", "c"}));
    EXPECT_TRUE(at::equal(LinearRegression::from(file).predict(x), regression.predict(x)));
  });
}

TEST(LinearRegression, RefusesWhatMakesNoSense) {
  EXPECT_EQ(test::message_of([] { LinearRegression regression({.alpha = -1}); }), "alpha = -1: it is from 0 on");
  with_table(2, {blobs(50, 3, 2)}, [](const Table& table) {
    EXPECT_EQ(test::message_of([&] { LinearRegression().fit(table); }), "regression needs a target");
  });
}

}  // namespace
}  // namespace lockstep::ml
