// lockstep/ml/cross_validation.h
//
// How well an estimator does on rows that it was not fitted to: fitted once without each
// fold and scored on that fold. For the linear family all folds and penalties come from one
// sweep over the rows.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "lockstep/ml/folds.h"
#include "lockstep/ml/gram.h"
#include "lockstep/ml/linear_model.h"
#include "lockstep/ml/table.h"

namespace lockstep::ml {

struct FoldScores {
  std::vector<double> of_folds;

  double mean() const;
  /// Of these folds, as numpy's std.
  double deviation() const;
};

/// The one of the largest mean, of equal ones the first. A mean that is NaN is the worst.
std::size_t best_of(const std::vector<FoldScores>& candidates);

/// `score` fits to one table and scores on the other, in both of which rows that do not belong weigh nothing. It is a
/// collective, and so is this.
FoldScores cross_validate(const Table& table, const Folds& folds,
                          const std::function<double(const Table& train, const Table& test)>& score);

/// R² of each of several models, by model: `fit` makes all of them from the products of rows. A collective.
std::vector<FoldScores> cross_validate_linear(const Table& table, const Folds& folds, int threads,
                                              const std::function<std::vector<LinearModel>(const Gram& train)>& fit);

}  // namespace lockstep::ml
