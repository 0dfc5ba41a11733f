#include "lockstep/ml/cross_validation.h"

#include <cmath>
#include <limits>

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include "lockstep/core/testing.h"
#include "lockstep/ml/algorithms/elastic_net.h"
#include "lockstep/ml/algorithms/linear_regression.h"
#include "lockstep/ml/algorithms/logistic_regression.h"
#include "lockstep/ml/least_squares.h"
#include "lockstep/ml/testing.h"

namespace lockstep::ml {
namespace {

using testing::blobs;
using testing::kRanksAndThreads;
using testing::with_table;

constexpr std::int64_t kRows = 21'003;

struct Data {
  at::Tensor x = blobs(kRows, 6, 3, 1, 100);
  at::Tensor y = at::stack({3 * x.select(1, 0) - x.select(1, 4), x.select(1, 1).sin()}, 1) + blobs(kRows, 2, 1, 8);
  at::Tensor weights = at::arange(kRows, at::kDouble).cos() + 1;
};

std::vector<LinearModel> ridge(const Gram& train) {
  const NormalEquations equations(train, 6, true);
  return {equations.solve(0), equations.solve(1), equations.solve(1e4)};
}

TEST(CrossValidation, OfRidgeIsThatOfEachFoldByItself) {
  const Data data;
  const double alphas[] = {0, 1, 1e4};
  for (const bool weighted : {false, true}) {
    for (const bool drawn : {false, true}) {
      with_table(3, {data.x, data.y, weighted ? data.weights : at::Tensor()}, [&](const Table& table) {
        const auto folds = deal_rows(table, 5, drawn ? std::optional<std::uint64_t>(1) : std::nullopt);
        const auto scores = cross_validate_linear(table, folds, 2, ridge);
        ASSERT_EQ(scores.size(), 3U);
        for (std::size_t i = 0; i < 3; ++i) {
          const auto alone = cross_validate(table, folds, [&](const Table& train, const Table& test) {
            LinearRegression regression({.alpha = alphas[i]});
            regression.fit(train);
            return regression.score(test);
          });
          ASSERT_EQ(scores[i].of_folds.size(), 5U);
          for (std::size_t fold = 0; fold < 5; ++fold) {
            EXPECT_NEAR(scores[i].of_folds[fold], alone.of_folds[fold], 1e-10) << weighted << drawn << i;
          }
        }
      });
    }
  }
}

TEST(CrossValidation, OfRowsThatAreReallyLeftOutIsTheSame) {
  const Data data;
  FoldScores found;
  with_table(2, {data.x, data.y}, [&](const Table& table) {
    const auto scores = cross_validate_linear(table, deal_rows(table, 3), 1, ridge);
    if (table.group().rank() == 0) found = scores[1];
  });
  for (std::int64_t fold = 0; fold < 3; ++fold) {
    const std::int64_t first = kRows / 3 * fold, last = first + kRows / 3;
    const auto without = [&](const at::Tensor& all) { return at::cat({all.slice(0, 0, first), all.slice(0, last)}); };
    LinearRegression regression({.alpha = 1});
    with_table(1, {without(data.x), without(data.y)}, [&](const Table& train) { regression.fit(train); });
    with_table(1, {data.x.slice(0, first, last), data.y.slice(0, first, last)}, [&](const Table& test) {
      EXPECT_NEAR(found.of_folds[static_cast<std::size_t>(fold)], regression.score(test), 1e-10);
    });
  }
}

TEST(CrossValidation, OfAColumnThatDiffersInOneFoldAloneDoesWithoutItThere) {
  // Rounding of the products of a constant column is as often above 0 as below: each of these is to be none.
  constexpr std::int64_t kColumns = 16, kFew = 442;
  const auto plain = blobs(kFew, 2, 1, 8);
  auto rare = at::zeros({kFew, kColumns}, at::kDouble);
  for (std::int64_t column = 0; column < kColumns; ++column) {
    rare.slice(0, 0, 5).select(1, column).fill_(0.1 + 0.37 * static_cast<double>(column));
  }
  const auto y = (150 + 3 * plain.select(1, 0) - plain.select(1, 1)).unsqueeze(1) + blobs(kFew, 1, 1, 9);
  const auto weights = at::ones({kFew}, at::kDouble);
  const auto least_squares = [](const Gram& train) {
    return std::vector{NormalEquations(train, train.mean.numel() - 1, true).solve(0)};
  };
  const auto first_fold = [&](const at::Tensor& x, const at::Tensor& of_rows) {
    double score = 0;
    with_table(2, {x, y, of_rows}, [&](const Table& table) {
      const auto folds = deal_rows(table, 5);
      const double found = cross_validate_linear(table, folds, 1, least_squares)[0].of_folds[0];
      const auto alone = [](const Table& train, const Table& test) {
        LinearRegression regression;
        regression.fit(train);
        return regression.score(test);
      };
      EXPECT_NEAR(cross_validate(table, folds, alone).of_folds[0], found, 1e-10);
      if (table.group().rank() == 0) score = found;
    });
    return score;
  };
  const auto all = at::cat({plain, rare}, 1);
  for (const auto& of_rows : {at::Tensor(), weights}) {
    EXPECT_NEAR(first_fold(all, of_rows), first_fold(plain, of_rows), 1e-10) << of_rows.defined();
  }
}

TEST(CrossValidation, OfATargetThatIsConstantInEachFoldIsZero) {
  constexpr std::int64_t kFolds = 12, kOfFold = 50;
  const auto y = at::arange(kFolds * kOfFold, at::kDouble).div(kOfFold, "floor").mul(0.37).add(0.1);
  with_table(1, {blobs(kFolds * kOfFold, 6, 2), y}, [&](const Table& table) {
    const auto scores = cross_validate_linear(table, deal_rows(table, kFolds), 1, ridge);
    for (const auto& of_penalty : scores) EXPECT_EQ(of_penalty.of_folds, std::vector<double>(kFolds, 0.0));
  });
}

TEST(CrossValidation, OfElasticNetsIsThatOfEachFoldByItself) {
  const Data data;
  const std::vector<double> alphas{1, 0.1};
  const ElasticNetOptions options{.l1_ratio = 0.7, .max_iter = 100'000, .tol = 1e-14};
  with_table(2, {data.x, data.y, data.weights}, [&](const Table& table) {
    const auto folds = deal_rows(table, 4);
    const auto scores = cross_validate_linear(table, folds, 1, [&](const Gram& train) {
      std::vector<LinearModel> models;
      for (const auto& fit : elastic_net_path(train, table.columns(), options, alphas)) models.push_back(fit.model);
      return models;
    });
    for (std::size_t i = 0; i < alphas.size(); ++i) {
      const auto alone = cross_validate(table, folds, [&](const Table& train, const Table& test) {
        auto with_alpha = options;
        with_alpha.alpha = alphas[i];
        ElasticNet net(with_alpha);
        net.fit(train);
        return net.score(test);
      });
      for (std::size_t fold = 0; fold < 4; ++fold) {
        EXPECT_NEAR(scores[i].of_folds[fold], alone.of_folds[fold], 1e-9);
      }
    }
  });
}

TEST(CrossValidation, OfAnyEstimatorIsThatOfRowsThatAreReallyLeftOut) {
  constexpr std::int64_t kFew = 9000;
  const auto x = blobs(kFew, 4, 3);
  const auto labels = x.select(1, 0).gt(0).to(at::kDouble) + x.select(1, 1).gt(1).to(at::kDouble);
  FoldScores found;
  with_table(2, {x, labels}, [&](const Table& table) {
    const auto scores = cross_validate(table, deal_rows(table, 3), [](const Table& train, const Table& test) {
      LogisticRegression regression({.tol = 1e-9});
      regression.fit(train);
      return regression.score(test);
    });
    if (table.group().rank() == 0) found = scores;
  });
  for (std::int64_t fold = 0; fold < 3; ++fold) {
    const std::int64_t first = kFew / 3 * fold, last = first + kFew / 3;
    const auto without = [&](const at::Tensor& all) { return at::cat({all.slice(0, 0, first), all.slice(0, last)}); };
    LogisticRegression regression({.tol = 1e-9});
    with_table(1, {without(x), without(labels)}, [&](const Table& train) { regression.fit(train); });
    with_table(1, {x.slice(0, first, last), labels.slice(0, first, last)}, [&](const Table& test) {
      EXPECT_DOUBLE_EQ(found.of_folds[static_cast<std::size_t>(fold)], regression.score(test));
    });
  }
}

TEST(CrossValidation, HasTheSameBitsOnAnyNumberOfRanksAndThreads) {
  const Data data;
  std::vector<double> first;
  for (const auto& [ranks, threads] : kRanksAndThreads) {
    with_table(ranks, {data.x, data.y}, [&, threads = threads](const Table& table) {
      const auto scores = cross_validate_linear(table, deal_rows(table, 5, 2), threads, ridge);
      if (table.group().rank() == 0 && first.empty()) first = scores[1].of_folds;
      EXPECT_EQ(scores[1].of_folds, first);
    });
  }
}

TEST(CrossValidation, ChoosesTheBestMean) {
  const std::vector<FoldScores> scores{{{0.125, 0.875}}, {{0.75, 0.5}}, {{0.625, 0.625}}};
  EXPECT_EQ(best_of(scores), 1U);
  EXPECT_DOUBLE_EQ(scores[0].mean(), 0.5);
  EXPECT_DOUBLE_EQ(scores[0].deviation(), 0.375);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(best_of({{{nan, 1}}, {{-5}}, {{nan}}, {{-2}}}), 3U);
  EXPECT_EQ(best_of({{{nan}}, {{nan}}}), 0U);
}

TEST(CrossValidation, NeedsRowsOfEachFold) {
  auto weights = at::ones({90}, at::kDouble);
  weights.slice(0, 30, 60).zero_();
  with_table(2, {blobs(90, 6, 1), at::arange(90).remainder(2), weights}, [](const Table& table) {
    EXPECT_EQ(test::message_of([&] { cross_validate_linear(table, deal_rows(table, 3), 1, ridge); }, Fault::Data),
              "the weights of all rows of fold 1 are 0; use fewer folds, or shuffle them");
    const auto classify = [](const Table& train, const Table& test) {
      LogisticRegression regression;
      regression.fit(train);
      return regression.score(test);
    };
    EXPECT_EQ(test::message_of([&] { cross_validate(table, deal_rows(table, 3), classify); }, Fault::Data),
              "the weights of all rows to be scored are 0");
    EXPECT_EQ(test::message_of([&] { cross_validate_linear(table, deal_rows(table, 46), 1, ridge); }),
              "R² needs two rows in each fold: 90 rows are dealt to at most 45 folds");
  });
}

}  // namespace
}  // namespace lockstep::ml
