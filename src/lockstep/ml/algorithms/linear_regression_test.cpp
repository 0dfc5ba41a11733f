#include "lockstep/ml/algorithms/linear_regression.h"

#include <memory>
#include <set>
#include <string>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "lockstep/core/testing.h"
#include "lockstep/ml/preparation.h"
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
        EXPECT_EQ(regression.fitted_score().has_value(), regression.solver() == "gram");
        EXPECT_EQ(regression.fitted_score().value_or(regression.score(table)), regression.score(table));
      });
    }
  }
}

TEST(LinearRegression, OfOnehotColumnsNeedsNoSecondSweep) {
  // Two numbers and two fields of three and two values, whose columns sum up to 1 each.
  const std::int64_t rows = 9000;
  auto x = at::zeros({rows, 7}, at::kDouble);
  x.slice(1, 0, 2).copy_(blobs(rows, 2, 3, 1, 20));
  for (std::int64_t row = 0; row < rows; ++row) {
    x[row][2 + row * row % 7 % 3] = 1;
    x[row][5 + row / 5 % 2] = 1;
  }
  const auto y = (x.mv(at::tensor({1., -2., 3., 5., -1., 2., 0.5}, at::kDouble)) + blobs(rows, 1, 1, 4).select(1, 0));
  const auto preparation = std::make_shared<Preparation>();
  preparation->onehot = {"city", "sex"};
  preparation->categories = {{"city", {"A", "B", "C"}}, {"sex", {"f", "m"}}};
  const std::vector<std::string> names{"p", "q", "city=A", "city=B", "city=C", "sex=f", "sex=m"};
  const auto expected = by_definition(x, y.unsqueeze(1), at::ones({rows}, at::kDouble), true);
  std::set<std::string> bits;
  for (const int ranks : {1, 3}) {
    comm::testing::on_ranks({ranks}, [&](comm::Communicator& group) {
      const auto own = [&](const at::Tensor& all) { return testing::part_of(all, group.rank(), ranks); };
      const auto table =
          make_table(group, {.x = own(x), .targets = own(y), .names = names, .preparation = preparation});
      LinearRegression regression;
      regression.fit(*table);
      EXPECT_EQ(regression.solver(), "gram");
      EXPECT_LT(difference(regression.model(), expected), 1e-10);
      EXPECT_EQ(regression.undetermined().size(), 5U);
      if (group.rank() != 0) return;
      const auto coef = regression.model().coef.contiguous();
      bits.emplace(static_cast<const char*>(coef.const_data_ptr()), coef.nbytes());
    });
  }
  EXPECT_EQ(bits.size(), 1U);
  // Another dependence is not known: the factor of the rows looks closer, as without names.
  x.select(1, 1).copy_(x.select(1, 0) * 3 - x.select(1, 2));
  comm::testing::on_ranks({1}, [&](comm::Communicator& group) {
    LinearRegression regression;
    regression.fit(*make_table(group, {.x = x, .targets = y, .names = names, .preparation = preparation}));
    EXPECT_EQ(regression.solver(), "qr");
  });
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

/// x, x², … x^degree around 2: columns whose condition grows by an order of magnitude with each.
at::Tensor powers(std::int64_t rows, std::int64_t degree) {
  const auto x = at::linspace(1, 3, rows, at::kDouble);
  std::vector<at::Tensor> columns;
  for (std::int64_t power = 1; power <= degree; ++power) columns.push_back(x.pow(power));
  return at::stack(columns, 1);
}

/// LAPACK's least squares of the rows themselves, of columns that are scaled alike.
LinearModel by_lapack(const at::Tensor& x, const at::Tensor& y, const at::Tensor& weights, double alpha = 0) {
  const auto roots = weights.sqrt().unsqueeze(1);
  const auto x_mean = x.t().mv(weights) / weights.sum(), y_mean = y.t().mv(weights) / weights.sum();
  auto rows = (x - x_mean) * roots, right = (y - y_mean) * roots;
  if (alpha > 0) {
    rows = at::cat({rows, at::eye(x.size(1), at::kDouble) * std::sqrt(alpha)});
    right = at::cat({right, at::zeros({x.size(1), y.size(1)}, at::kDouble)});
  }
  const auto norms = rows.norm(2, {0});
  const auto coef =
      (std::get<0>(at::linalg_lstsq(rows / norms, right, std::nullopt, "gelsd")) / norms.unsqueeze(1)).t();
  return {coef, y_mean - coef.mv(x_mean)};
}

TEST(LinearRegression, KeepsTheDigitsOfColumnsThatNearlyDependOnEachOther) {
  constexpr std::int64_t kRows = 12'000;
  const auto x = powers(kRows, 7), some = at::arange(kRows, at::kDouble).cos() + 1;
  const auto scaled = (x - x.mean(0)) / (x - x.mean(0)).norm(2, {0});
  const auto singular = at::linalg_svdvals(scaled);
  const double condition = (singular[0] / singular[-1]).item<double>();
  EXPECT_GT(condition, 1e6);
  EXPECT_LT(condition, 1e8);
  const auto y = (scaled.sum(1) * 10 + 4).unsqueeze(1);
  for (const bool weighted : {false, true}) {
    const auto weights = weighted ? some : at::ones({kRows}, at::kDouble);
    const auto expected = by_lapack(x, y, weights);
    with_table(3, {x, y, weighted ? some : at::Tensor()}, [&](const Table& table) {
      LinearRegression automatic, products({.solver = "gram"});
      automatic.fit(table);
      products.fit(table);
      EXPECT_EQ(automatic.solver(), "qr");
      EXPECT_EQ(products.solver(), "gram");
      EXPECT_LT(difference(automatic.model(), expected), 1e-8) << weighted;
      EXPECT_GT(difference(products.model(), expected), 1e-8) << weighted;
      EXPECT_TRUE(automatic.undetermined().empty());
      EXPECT_NEAR(automatic.score(table), 1, 1e-14);
      // Some penalties leave the products a good condition; the factor is as exact.
      const auto models = automatic.path(table, {1e-9, 1e-3, 1e3});
      for (const auto& [i, alpha] : {std::pair(0, 1e-9), std::pair(1, 1e-3), std::pair(2, 1e3)}) {
        EXPECT_LT(difference(models[static_cast<std::size_t>(i)], by_lapack(x, y, weights, alpha)), 1e-8) << alpha;
      }
    });
  }
}

TEST(LinearRegression, TakesAnotherSweepOnlyIfItMust) {
  const auto x = blobs(5000, 5, 2, 1, 3), y = x.select(1, 1).cos();
  auto with_constant = x.clone();
  with_constant.select(1, 2).fill_(7);
  for (const auto& columns : {x, with_constant}) {
    with_table(2, {columns, y}, [&](const Table& table) {
      LinearRegression automatic, factor({.solver = "qr"});
      automatic.fit(table);
      factor.fit(table);
      EXPECT_EQ(automatic.solver(), "gram");
      EXPECT_EQ(factor.solver(), "qr");
      EXPECT_LT(difference(automatic.model(), factor.model()), 1e-11);
      EXPECT_EQ(automatic.undetermined(), factor.undetermined());
      EXPECT_NEAR(automatic.score(table), factor.score(table), 1e-12);
    });
  }
}

TEST(LinearRegression, OfFewerRowsThanColumnsHasTheLeastNorm) {
  const auto x = blobs(9, 14, 2), y = blobs(9, 2, 1, 5);
  for (const bool fit_intercept : {true, false}) {
    const auto expected = by_definition(x, y, at::ones({9}, at::kDouble), fit_intercept);
    with_table(2, {x, y}, [&](const Table& table) {
      LinearRegression regression({.fit_intercept = fit_intercept});
      regression.fit(table);
      EXPECT_LT(difference(regression.model(), expected), 1e-10) << fit_intercept;
    });
  }
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

TEST(LinearRegression, RidgeOfDependentColumnsIsRightUnderAnyPenalty) {
  // Penalties above, at and below the rounding of the products, by which LAPACK's triangle ends at the second column.
  const auto of = blobs(5000, 3, 2, 1, 3);
  const auto a = of.select(1, 0), b = of.select(1, 1), c = of.select(1, 2), ones = at::ones({5000}, at::kDouble);
  const auto y = (a - 2 * c).unsqueeze(1) + blobs(5000, 1, 1, 3);
  const std::vector<double> alphas{1e-300, 1e-22, 1e-18, 1e-15, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-6, 1};
  // To a small column the same penalty may be a large one.
  for (const double size : {1.0, 1e-5}) {
    const auto x = at::stack({a, 12 * a, b, c * size}, 1);
    // The least norm shares what a explains by 1 : 12, so that both are as one column.
    const auto alone = at::stack({a * std::sqrt(145.0), b, c * size}, 1);
    with_table(2, {x, y}, [&](const Table& table) {
      const auto models = LinearRegression({.solver = "gram"}).path(table, alphas);
      for (std::size_t i = 0; i < alphas.size(); ++i) {
        const auto expected = by_lapack(alone, y, ones, alphas[i]);
        const auto coef = expected.coef[0];
        const auto shared = at::stack({coef[0] / std::sqrt(145.0), 12 * coef[0] / std::sqrt(145.0), coef[1], coef[2]});
        EXPECT_LT(difference(models[i], {shared.unsqueeze(0), expected.intercept}), 1e-8) << alphas[i] << ", " << size;
      }
    });
  }
}

TEST(LinearRegression, HasTheSameBitsOnAnyNumberOfRanksAndThreads) {
  const auto x = blobs(30'001, 12, 3), y = x.select(1, 3).sin();
  for (const auto& [alpha, solver] :
       {std::pair(0.0, "gram"), std::pair(2.5, "gram"), std::pair(0.0, "qr"), std::pair(2.5, "qr")}) {
    LinearModel first;
    for (const auto& [ranks, threads] : kRanksAndThreads) {
      with_table(ranks, {x, y}, [&, alpha = alpha, solver = solver, threads = threads](const Table& table) {
        LinearRegression regression({.alpha = alpha, .solver = solver, .threads = threads});
        regression.fit(table);
        if (table.group().rank() == 0 && !first.coef.defined()) first = regression.model();
        EXPECT_TRUE(at::equal(regression.model().coef, first.coef));
        EXPECT_TRUE(at::equal(regression.model().intercept, first.intercept));
      });
    }
  }
}

TEST(LinearRegression, ScoresOneSweepAfterAnother) {
  class OneAtATime final : public SweepObserver {
   public:
    void begin(const char*, std::int64_t) override {
      EXPECT_FALSE(open_);
      open_ = true;
      ++passes;
    }
    void add(std::int64_t) override {}
    void end() override { open_ = false; }

    int passes = 0;

   private:
    bool open_ = false;
  };
  comm::testing::on_ranks({2}, [](comm::Communicator& group) {
    const auto seen = std::make_shared<OneAtATime>();
    const auto x = blobs(9000, 3, 2);
    const auto table = make_table(group, {.x = x, .targets = x.select(1, 0), .observer = seen});
    LinearRegression regression({.solver = "qr"});
    regression.fit(*table);
    const int before = seen->passes;
    EXPECT_NEAR(regression.score(*table), 1, 1e-12);
    EXPECT_EQ(seen->passes - before, 3);
  });
}

TEST(LinearRegression, ProductsScoreTheSameBitsOnAnyNumberOfTorchsThreads) {
  constexpr std::int64_t kColumns = 700;
  const auto x = blobs(2 * kColumns, kColumns, 3);
  const auto y = x.matmul(blobs(kColumns, 3, 1, 2)) + blobs(2 * kColumns, 3, 1, 4);
  with_table(1, {x, y}, [&](const Table& table) {
    const Gram products = gram(table, 1);
    const LinearModel model{blobs(3, kColumns, 1, 5), at::zeros({3}, at::kDouble)};
    const int before = at::get_num_threads();
    std::set<double> scores;
    for (const int threads : {1, 2, 3, 4, 7}) {
      at::set_num_threads(threads);
      scores.insert(r2_score(products, model));
    }
    at::set_num_threads(before);
    EXPECT_EQ(scores.size(), 1U);
  });
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
  EXPECT_EQ(test::message_of([] { LinearRegression regression({.solver = "svd"}); }),
            "solver = 'svd': it is one of auto, gram, qr");
  with_table(2, {blobs(50, 3, 2)}, [](const Table& table) {
    EXPECT_EQ(test::message_of([&] { LinearRegression().fit(table); }), "regression needs a target");
  });
}

}  // namespace
}  // namespace lockstep::ml
