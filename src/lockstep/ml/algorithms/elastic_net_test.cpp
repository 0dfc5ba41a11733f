#include "lockstep/ml/algorithms/elastic_net.h"

#include <gtest/gtest.h>

#include "lockstep/core/testing.h"
#include "lockstep/ml/algorithms/linear_regression.h"
#include "lockstep/ml/testing.h"

namespace lockstep::ml {
namespace {

using testing::blobs;
using testing::kRanksAndThreads;
using testing::with_table;

constexpr std::int64_t kRows = 9000;

at::Tensor targets_for(const at::Tensor& x) {
  const at::Tensor noise = blobs(x.size(0), 2, 1, 7);
  return at::stack({3 * x.select(1, 0) - x.select(1, 2) + 4, x.select(1, 1) * 0.5}, 1) + noise;
}

/// By how much the conditions of a minimum are missed: a coefficient other than 0 is pulled by its penalty, one of 0 by
/// less than l1.
double missed(const LinearModel& model, const at::Tensor& x, const at::Tensor& y, const at::Tensor& weights,
              const ElasticNetOptions& options) {
  const at::Tensor left = y - x.matmul(model.coef.t()) - model.intercept;
  const at::Tensor pull =
      (left * weights.unsqueeze(1)).t().matmul(x) / weights.sum() - options.alpha * (1 - options.l1_ratio) * model.coef;
  const double l1 = options.alpha * options.l1_ratio;
  const at::Tensor idle = (options.positive ? pull : pull.abs()) - l1;
  const at::Tensor off = at::where(model.coef.eq(0), idle.clamp_min(0), (pull - l1 * model.coef.sign()).abs());
  double worst = off.max().item<double>();
  if (options.fit_intercept) {
    const at::Tensor mean = (left * weights.unsqueeze(1)).sum(0) / weights.sum();
    worst = std::max(worst, mean.abs().max().item<double>());
  }
  return worst;
}

TEST(ElasticNet, MeetsTheConditionsOfAMinimum) {
  const auto x = blobs(kRows, 8, 3, 1, 4), y = targets_for(x);
  const auto some = at::arange(kRows, at::kDouble).cos() + 1, ones = at::ones({kRows}, at::kDouble);
  const ElasticNetOptions cases[] = {
      {},
      {.alpha = 0.3, .l1_ratio = 1},
      {.alpha = 0.3, .l1_ratio = 1, .fit_intercept = false},
      {.alpha = 0.1, .l1_ratio = 0.2},
      {.alpha = 0.2, .l1_ratio = 0},
      {.alpha = 0.05, .l1_ratio = 0.9, .positive = true},
  };
  for (ElasticNetOptions options : cases) {
    options.tol = 1e-13;
    options.max_iter = 100'000;
    for (const bool weighted : {false, true}) {
      with_table(3, {x, y, weighted ? some : at::Tensor()}, [&](const Table& table) {
        ElasticNet net(options);
        net.fit(table);
        EXPECT_LT(missed(net.model(), x, y, weighted ? some : ones, options), 1e-7) << options.l1_ratio;
        if (options.positive) {
          EXPECT_TRUE(net.model().coef.ge(0).all().item<bool>());
        }
        for (const double gap : net.dual_gap()) EXPECT_LT(gap, 1e-9);
      });
    }
  }
}

TEST(ElasticNet, OfNoL1IsRidgeRegression) {
  const auto x = blobs(kRows, 6, 2), y = targets_for(x);
  with_table(2, {x, y}, [&](const Table& table) {
    ElasticNet net({.alpha = 0.7, .l1_ratio = 0, .max_iter = 100'000, .tol = 1e-15});
    LinearRegression ridge({.alpha = 0.7 * kRows});
    net.fit(table);
    ridge.fit(table);
    EXPECT_TRUE(at::allclose(net.model().coef, ridge.model().coef, 1e-7, 1e-9));
    EXPECT_TRUE(at::allclose(net.model().intercept, ridge.model().intercept, 1e-7, 1e-8));
    EXPECT_NEAR(net.score(table), ridge.score(table), 1e-7);
    EXPECT_EQ(net.fitted_score(), net.score(table));
  });
}

TEST(ElasticNet, PathBeginsWhereNothingIsLeftAndIsThatOfEachAlphaAlone) {
  const auto x = blobs(kRows, 8, 3), y = targets_for(x);
  with_table(2, {x, y}, [&](const Table& table) {
    const ElasticNetOptions options{.l1_ratio = 0.8, .max_iter = 100'000, .tol = 1e-14};
    const auto all = alpha_grid(gram(table, 1), table.columns(), options, 20);
    ASSERT_EQ(all.size(), 20U);
    EXPECT_NEAR(all.back() / all.front(), 1e-3, 1e-12);
    // In any order.
    const std::vector<double> alphas{all[19], all[0] * 1.0000001, all[10], all[0] * 0.98};
    const auto fits = ElasticNet(options).path(table, alphas);
    EXPECT_EQ(fits[1].model.coef.count_nonzero().item<std::int64_t>(), 0);
    EXPECT_GT(fits[3].model.coef.count_nonzero().item<std::int64_t>(), 0);
    for (std::size_t i = 0; i < alphas.size(); ++i) {
      auto alone = options;
      alone.alpha = alphas[i];
      ElasticNet net(alone);
      net.fit(table);
      EXPECT_TRUE(at::allclose(net.model().coef, fits[i].model.coef, 1e-6, 1e-8)) << alphas[i];
    }
  });
}

TEST(ElasticNet, OfAConstantColumnTakesNothing) {
  auto x = blobs(kRows, 4, 2, 1, 1e3);
  x.select(1, 1).fill_(0.1);
  with_table(2, {x, targets_for(x)}, [&](const Table& table) {
    ElasticNet net({.alpha = 1e-3});
    net.fit(table);
    EXPECT_EQ(net.model().coef.select(1, 1).abs().max().item<double>(), 0);
    EXPECT_GT(net.score(table), 0.3);
  });
}

TEST(ElasticNet, HasTheSameBitsOnAnyNumberOfRanksAndThreads) {
  const auto x = blobs(30'001, 12, 3), y = targets_for(x);
  LinearModel first;
  for (const auto& [ranks, threads] : kRanksAndThreads) {
    with_table(ranks, {x, y}, [&, threads = threads](const Table& table) {
      ElasticNet net({.alpha = 0.1, .threads = threads});
      net.fit(table);
      if (table.group().rank() == 0 && !first.coef.defined()) first = net.model();
      EXPECT_TRUE(at::equal(net.model().coef, first.coef));
      EXPECT_TRUE(at::equal(net.model().intercept, first.intercept));
    });
  }
}

TEST(ElasticNet, IsReadFromItsFile) {
  const test::TemporaryFolder folder;
  const auto x = blobs(500, 3, 2);
  with_table(1, {x, targets_for(x), {}, {"a", "b", "c"}, {"u", "v"}}, [&](const Table& table) {
    ElasticNet net({.alpha = 0.1});
    net.fit(table);
    write_model(folder / "model", net.file(table));
    const auto file = read_model(folder / "model");
    const auto predictor = PredictorRegistry::instance().at("algorithm", file.algorithm)(file);
    EXPECT_EQ(predictor->outputs(), (std::vector<std::string>{"u", "v"}));
    EXPECT_TRUE(at::equal(predictor->predict(x), net.predict(x)));
    EXPECT_TRUE(at::equal(ElasticNet::from(file).predict(x), net.predict(x)));
  });
}

TEST(ElasticNet, RefusesWhatMakesNoSense) {
  const auto message = [](const ElasticNetOptions& options) {
    return test::message_of([&] { ElasticNet net(options); });
  };
  EXPECT_EQ(message({.alpha = -1}), "alpha = -1: it is from 0 on");
  EXPECT_EQ(message({.l1_ratio = 1.5}), "l1_ratio = 1.5: it is from 0 to 1");
  EXPECT_EQ(message({.max_iter = 0}), "max_iter = 0: it is from 1 on");
  EXPECT_EQ(message({.tol = -1}), "tol = -1: it is from 0 on");
  with_table(2, {blobs(50, 3, 2)}, [](const Table& table) {
    EXPECT_EQ(test::message_of([&] { ElasticNet().fit(table); }), "regression needs a target");
  });
}

}  // namespace
}  // namespace lockstep::ml
