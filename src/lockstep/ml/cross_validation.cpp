#include "lockstep/ml/cross_validation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"

namespace lockstep::ml {
namespace {

/// Hosts may compute the last bits in different ways: all decide by those of rank 0.
void share(const Table& table, std::vector<double>& values) {
  const at::Tensor all = at::tensor(values, at::kDouble);
  table.group().broadcast_(all, 0, {.name = "scores of folds"}).wait();
  std::copy_n(all.const_data_ptr<double>(), values.size(), values.begin());
}

}  // namespace

double FoldScores::mean() const {
  return std::accumulate(of_folds.begin(), of_folds.end(), 0.0) / static_cast<double>(of_folds.size());
}

double FoldScores::deviation() const {
  const double middle = mean();
  double squares = 0;
  for (const double score : of_folds) squares += (score - middle) * (score - middle);
  return std::sqrt(squares / static_cast<double>(of_folds.size()));
}

std::size_t best_of(const std::vector<FoldScores>& candidates) {
  // A mean that is NaN is neither less nor more than others: the first candidate would win by it.
  const auto worth = [](const FoldScores& scores) {
    const double mean = scores.mean();
    return std::isnan(mean) ? -std::numeric_limits<double>::infinity() : mean;
  };
  const auto best = std::max_element(candidates.begin(), candidates.end(),
                                     [&](const auto& one, const auto& other) { return worth(one) < worth(other); });
  return static_cast<std::size_t>(best - candidates.begin());
}

FoldScores cross_validate(const Table& table, const Folds& folds,
                          const std::function<double(const Table& train, const Table& test)>& score) {
  FoldScores scores;
  for (std::int64_t fold = 0; fold < folds.count; ++fold) {
    const auto train = without_fold(table, folds, fold), test = fold_alone(table, folds, fold);
    scores.of_folds.push_back(score(*train, *test));
  }
  share(table, scores.of_folds);
  return scores;
}

std::vector<FoldScores> cross_validate_linear(const Table& table, const Folds& folds, int threads,
                                              const std::function<std::vector<LinearModel>(const Gram& train)>& fit) {
  check_has_target(table);
  check_two_rows_each(table, folds);
  const auto parts = gram_of_parts(table, folds.of_rows, folds.count, threads);
  for (std::size_t fold = 0; fold < parts.size(); ++fold) {
    if (parts[fold].weight > 0) continue;
    fail(Fault::Data, fmt::format("the weights of all rows of fold {} are 0; use fewer folds, or shuffle them", fold));
  }
  std::vector<FoldScores> scores;
  for (std::size_t fold = 0; fold < parts.size(); ++fold) {
    const auto models = fit(together(parts, static_cast<std::int64_t>(fold)));
    scores.resize(models.size());
    for (std::size_t i = 0; i < models.size(); ++i) scores[i].of_folds.push_back(r2_score(parts[fold], models[i]));
  }
  for (auto& one : scores) share(table, one.of_folds);
  return scores;
}

}  // namespace lockstep::ml
