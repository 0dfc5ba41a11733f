#include "lockstep/ml/algorithms/logistic_regression.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "lockstep/core/testing.h"
#include "lockstep/ml/testing.h"

namespace lockstep::ml {
namespace {

using testing::blobs;
using testing::kRanksAndThreads;
using testing::with_table;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Classes that columns tell apart in part.
at::Tensor labels_for(const at::Tensor& x, std::int64_t classes, std::uint64_t seed = 3) {
  Random random(seed, 0);
  at::Tensor labels = at::empty({x.size(0)}, at::kDouble);
  const at::Tensor scaled = ((x - x.mean(0)) / x.std(0)).contiguous();
  for (std::int64_t row = 0; row < x.size(0); ++row) {
    const double* values = scaled.const_data_ptr<double>() + row * x.size(1);
    std::int64_t best = 0;
    double most = -kInfinity;
    for (std::int64_t number = 0; number < classes; ++number) {
      const double margin = 1.5 * values[number % x.size(1)] - (number == 0 ? 0.7 : 0) + 2 * random.normal();
      if (margin > most) {
        most = margin;
        best = number;
      }
    }
    labels.mutable_data_ptr<double>()[row] = static_cast<double>(best);
  }
  return labels;
}

/// C · Σ weight · loss + |coef|² / 2 of a model, and its gradient by coef and intercept.
struct Objective {
  double value;
  at::Tensor by_coef, by_intercept;
};
Objective by_definition(const LinearModel& model, const at::Tensor& x, const at::Tensor& labels,
                        const at::Tensor& weights, double C) {
  const bool two = model.coef.size(0) == 1;
  at::Tensor margins = x.to(at::kDouble).matmul(model.coef.t()) + model.intercept;
  if (two) margins = at::cat({at::zeros_like(margins), margins}, 1);
  const at::Tensor numbers = labels.to(at::kLong).unsqueeze(1);
  const at::Tensor losses = -margins.log_softmax(1).gather(1, numbers).squeeze(1);
  at::Tensor residuals = margins.softmax(1);
  residuals = (residuals - at::zeros_like(residuals).scatter_(1, numbers, 1)) * weights.unsqueeze(1);
  if (two) residuals = residuals.slice(1, 1);
  const double factor = std::isfinite(C) ? C : 1;
  const double penalty = std::isfinite(C) ? 0.5 : 0;
  return {factor * (weights * losses).sum().item<double>() + penalty * model.coef.square().sum().item<double>(),
          factor * residuals.t().matmul(x.to(at::kDouble)) + 2 * penalty * model.coef, factor * residuals.sum(0)};
}

struct Case {
  std::int64_t classes, columns;
  double C;
  bool fit_intercept, weighted;
};

TEST(LogisticRegression, EndsWhereTheGradientIsZero) {
  const Case cases[] = {{2, 5, 1, true, false},  {2, 20, 0.01, true, true}, {2, 8, kInfinity, true, true},
                        {2, 3, 1, false, false}, {3, 5, 1, true, true},     {4, 2, kInfinity, true, false},
                        {5, 7, 10, false, true}};
  for (const Case& one : cases) {
    const auto x = blobs(9000, one.columns, 3, 1, 5), labels = labels_for(x, one.classes);
    const auto some = at::arange(9000, at::kDouble).cos() + 1, ones = at::ones({9000}, at::kDouble);
    const auto weights = one.weighted ? some : ones;
    for (const char* solver : {"newton-cholesky", "lbfgs"}) {
      with_table(3, {x, labels, one.weighted ? some : at::Tensor()}, [&](const Table& table) {
        LogisticRegression regression(
            {.C = one.C, .fit_intercept = one.fit_intercept, .tol = 1e-11, .max_iter = 2000, .solver = solver});
        regression.fit(table);
        EXPECT_TRUE(regression.converged());
        EXPECT_EQ(regression.classes().count(), one.classes);
        const auto objective = by_definition(regression.model(), x, labels, weights, one.C);
        const double scale = (std::isfinite(one.C) ? one.C : 1) * weights.sum().item<double>();
        EXPECT_LT(objective.by_coef.abs().max().item<double>(), 1e-10 * scale) << solver << one.classes;
        if (one.fit_intercept) {
          EXPECT_LT(objective.by_intercept.abs().max().item<double>(), 1e-10 * scale) << solver;
          if (one.classes > 2) {
            EXPECT_NEAR(regression.model().intercept.sum().item<double>(), 0, 1e-9);
          }
        } else {
          EXPECT_TRUE(at::equal(regression.model().intercept, at::zeros_like(regression.model().intercept)));
        }
        EXPECT_NEAR(regression.objective() / objective.value, 1, 1e-12);
      });
    }
  }
}

TEST(LogisticRegression, ConvergesByDefaultFromUnlikeScales) {
  auto x = blobs(12'000, 6, 3);
  x.select(1, 1).mul_(1e4).add_(3e6);
  x.select(1, 2).mul_(1e-3);
  for (const std::int64_t classes : {2, 4}) {
    const auto labels = labels_for(x, classes);
    for (const char* solver : {"newton-cholesky", "lbfgs"}) {
      with_table(2, {x, labels}, [&](const Table& table) {
        LogisticRegression exact({.tol = 1e-7, .max_iter = 1000}), usual({.solver = solver});
        exact.fit(table);
        usual.fit(table);
        EXPECT_TRUE(usual.converged());
        EXPECT_LT(usual.n_iter(), 100);
        EXPECT_NEAR(usual.objective() / exact.objective(), 1, 1e-5) << solver << classes;
      });
    }
  }
}

TEST(LogisticRegression, WeighsClassesAsIfTheirRowsWeighedMore) {
  const auto x = blobs(5000, 4, 2), labels = labels_for(x, 3);
  const auto weights = at::arange(5000, at::kDouble).sin() + 1.5;
  std::vector<double> balanced;
  for (int number = 0; number < 3; ++number) {
    const double own = (weights * labels.eq(number)).sum().item<double>();
    balanced.push_back(weights.sum().item<double>() / (3 * own));
  }
  const auto by_class = at::tensor(balanced, at::kDouble).index_select(0, labels.to(at::kLong));
  LinearModel expected;
  with_table(1, {x, labels, weights * by_class}, [&](const Table& table) {
    LogisticRegression regression({.tol = 1e-10});
    regression.fit(table);
    expected = regression.model();
  });
  with_table(3, {x, labels, weights}, [&](const Table& table) {
    LogisticRegression named({.tol = 1e-10, .class_weight = "balanced"}),
        given({.tol = 1e-10, .class_weights = balanced});
    for (LogisticRegression* one : {&named, &given}) {
      one->fit(table);
      EXPECT_TRUE(at::allclose(one->model().coef, expected.coef, 1e-8, 1e-10));
    }
  });
}

TEST(LogisticRegression, SaysClassesAndTheirProbabilities) {
  for (const std::int64_t classes : {2, 4}) {
    const auto x = blobs(6000, 5, 3), numbers = labels_for(x, classes);
    const auto labels = numbers * 10 + 3;  // any values are classes
    with_table(2, {x, labels, {}, {}, {"kind"}}, [&](const Table& table) {
      LogisticRegression regression;
      regression.fit(table);
      const auto proba = regression.predict_proba(x), said = regression.predict(x);
      EXPECT_TRUE(at::allclose(proba.sum(1), at::ones({6000}, at::kDouble)));
      EXPECT_TRUE(at::allclose(regression.predict_log_proba(x).exp(), proba, 1e-12));
      EXPECT_TRUE(at::equal(said, proba.argmax(1) * 10 + 3));
      EXPECT_EQ(said.scalar_type(), at::kLong);
      const auto margins = regression.decision_function(x);
      if (classes == 2) {
        EXPECT_TRUE(at::allclose(margins.sigmoid(), proba.select(1, 1), 1e-12));
      } else {
        EXPECT_TRUE(at::allclose(margins.softmax(1), proba, 1e-12));
      }
      const double share = said.eq(labels).to(at::kDouble).mean().item<double>();
      EXPECT_DOUBLE_EQ(regression.score(table), share);
      EXPECT_GT(share, 1.2 / static_cast<double>(classes));
    });
  }
}

TEST(LogisticRegression, OfDependentColumnsHasTheLeastNorm) {
  auto x = blobs(4000, 4, 2);
  x.select(1, 2).fill_(2.5);
  x.select(1, 3).copy_(x.select(1, 0));
  const auto labels = labels_for(x.slice(1, 0, 2).contiguous(), 2);
  for (const char* solver : {"newton-cholesky", "lbfgs"}) {
    with_table(2, {x, labels, {}, {"a", "b", "c", "d"}}, [&](const Table& table) {
      LogisticRegression regression({.C = kInfinity, .tol = 1e-9, .solver = solver});
      regression.fit(table);
      EXPECT_EQ(regression.undetermined(), (std::vector<std::string>{"'a'", "'c'", "'d'"}));
      const double* coef = regression.model().coef.const_data_ptr<double>();
      EXPECT_NEAR(coef[0], coef[3], 1e-9);
      EXPECT_NEAR(coef[2], 0, 1e-9);
      EXPECT_NEAR(regression.objective(),
                  by_definition(regression.model(), x, labels, at::ones({4000}, at::kDouble), kInfinity).value,
                  1e-10 * regression.objective());
    });
  }
}

TEST(LogisticRegression, OfRowsThatAreTornApartEnds) {
  const auto x = blobs(3000, 3, 2), labels = x.select(1, 0).gt(0).to(at::kDouble);
  with_table(2, {x, labels}, [&](const Table& table) {
    for (const double C : {1.0, 1e6, kInfinity}) {
      LogisticRegression regression({.C = C});
      regression.fit(table);
      EXPECT_GT(regression.score(table), 0.99);
      EXPECT_TRUE(regression.model().coef.isfinite().all().item<bool>());
    }
  });
}

TEST(LogisticRegression, OfFloatsIsNearThatOfDoubles) {
  const auto x = blobs(8000, 9, 3), labels = labels_for(x, 3);
  LinearModel expected;
  for (const auto type : {at::kDouble, at::kFloat}) {
    with_table(2, {x.to(type), labels}, [&](const Table& table) {
      LogisticRegression regression({.tol = 1e-9});
      regression.fit(table);
      if (type == at::kDouble && table.group().rank() == 0) expected = regression.model();
      if (type == at::kFloat) {
        EXPECT_LT(((regression.model().coef - expected.coef).norm() / expected.coef.norm()).item<double>(), 1e-5);
      }
    });
  }
}

TEST(LogisticRegression, HasTheSameBitsOnAnyNumberOfRanksAndThreads) {
  const auto x = blobs(30'001, 12, 3);
  for (const std::int64_t classes : {2, 3}) {
    const auto labels = labels_for(x, classes);
    for (const char* solver : {"newton-cholesky", "lbfgs"}) {
      LinearModel first;
      for (const auto& [ranks, threads] : kRanksAndThreads) {
        with_table(ranks, {x, labels}, [&, threads = threads](const Table& table) {
          LogisticRegression regression({.solver = solver, .threads = threads});
          regression.fit(table);
          if (table.group().rank() == 0 && !first.coef.defined()) first = regression.model();
          EXPECT_TRUE(at::equal(regression.model().coef, first.coef)) << solver << ranks << threads;
          EXPECT_TRUE(at::equal(regression.model().intercept, first.intercept));
        });
      }
    }
  }
}

TEST(LogisticRegression, IsReadFromItsFile) {
  const test::TemporaryFolder folder;
  const auto x = blobs(500, 3, 2), labels = labels_for(x, 3);
  with_table(1, {x, labels, {}, {"a", "b", "c"}, {"kind"}, {"red", "green", "blue"}}, [&](const Table& table) {
    LogisticRegression regression;
    regression.fit(table);
    write_model(folder / "model", regression.file(table));
    const auto file = read_model(folder / "model");
    const auto predictor = PredictorRegistry::instance().at("algorithm", file.algorithm)(file);
    EXPECT_EQ(predictor->outputs(), std::vector<std::string>{"kind"});
    EXPECT_EQ(predictor->proba_outputs(), (std::vector<std::string>{"red", "green", "blue"}));
    EXPECT_EQ(predictor->value_names(), predictor->proba_outputs());
    EXPECT_TRUE(at::equal(predictor->predict(x), regression.predict(x)));
    EXPECT_TRUE(at::equal(predictor->predict_proba(x), regression.predict_proba(x)));
  });
}

TEST(LogisticRegression, RefusesWhatMakesNoSense) {
  const auto message = [](const LogisticRegressionOptions& options) {
    return test::message_of([&] { LogisticRegression regression(options); });
  };
  EXPECT_EQ(message({.C = 0}), "C = 0: it is above 0");
  EXPECT_EQ(message({.tol = -1}), "tol = -1: it is from 0 on");
  EXPECT_EQ(message({.max_iter = -1}), "max_iter = -1: it is from 0 on");
  EXPECT_EQ(message({.class_weight = "even"}), "class_weight = \"even\": it is \"balanced\"");
  EXPECT_EQ(message({.class_weights = {1, -2}}), "class_weights holds -2: weights are from 0 on");
  EXPECT_EQ(message({.solver = "lbfg"}), "solver = 'lbfg': it is one of auto, lbfgs, newton-cholesky");
  auto x = blobs(9000, 3, 2);
  const auto labels = labels_for(x, 2);
  with_table(2, {x, at::ones({9000}, at::kDouble)}, [](const Table& table) {
    EXPECT_EQ(test::message_of([&] { LogisticRegression().fit(table); }, Fault::Data),
              "all rows are of class 1: there is nothing to tell apart");
  });
  with_table(2, {x, labels}, [](const Table& table) {
    EXPECT_EQ(test::message_of([&] { LogisticRegression({.class_weights = {1, 1, 1}}).fit(table); }),
              "3 weights for 2 classes");
  });
  with_table(2, {x, labels, at::zeros({9000}, at::kDouble)}, [](const Table& table) {
    EXPECT_EQ(test::message_of([&] { LogisticRegression().fit(table); }, Fault::Data),
              "the weights of all rows are 0; leave --weights out, or name another field");
  });
  with_table(2, {x * 1e200, labels}, [](const Table& table) {
    for (const char* solver : {"newton-cholesky", "lbfgs"}) {
      EXPECT_EQ(test::message_of([&] { LogisticRegression({.solver = solver}).fit(table); }, Fault::Data),
                "products of the columns are too large for float64; scale the columns");
    }
  });
  x[8900][1] = std::numeric_limits<double>::quiet_NaN();
  with_table(2, {x, labels}, [](const Table& table) {
    for (const char* solver : {"newton-cholesky", "lbfgs"}) {
      EXPECT_EQ(test::message_of([&] { LogisticRegression({.solver = solver}).fit(table); }, Fault::Data),
                "row 8900, column 1 is no finite number; clean the data, or use --missing mean or drop");
    }
  });
}

}  // namespace
}  // namespace lockstep::ml
