// lockstep/ml/logistic_loss.h
//
// The logistic loss of a table as a function of the coefficients: what the solvers of
// logistic regression minimise. Unknowns are [outputs, columns and the intercept], of
// columns that are moved so that their mean is near 0, which makes the intercept nearly
// independent of the others.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/ml/linear_model.h"
#include "lockstep/ml/newton.h"
#include "lockstep/ml/table.h"

namespace lockstep::ml {

struct LogisticTask {
  std::int64_t outputs = 1;                // 1 of two classes, else that of the classes
  std::vector<std::int32_t> classes = {};  // of this rank's rows
  std::vector<double> class_weights = {};  // rows' weights are multiplied by; empty: by 1
  double weight = 0;                       // the sum of the weights of all rows
  bool fit_intercept = true;
  double l2 = 0;          // of the mean loss: + l2 · |coef|² / 2
  at::Tensor shift = {};  // float64 [columns], by which columns are moved; 0 without an intercept
  int threads = 1;
};

class LogisticLoss {
 public:
  /// Both must outlive it.
  LogisticLoss(const Table& table, const LogisticTask& task);

  /// Of an output: columns and, if there is one, the intercept.
  std::int64_t width() const noexcept { return width_; }
  std::int64_t unknowns() const noexcept { return task_.outputs * width_; }

  /// The weighted mean of the loss and the penalty. A collective; the same bits on any number of ranks and threads. The
  /// Hessian is only made if it is wanted.
  Curve at(const std::vector<double>& unknowns, bool with_hessian) const;
  /// The gradient's largest component by the coefficients of unmoved columns.
  double steepness(const std::vector<double>& gradient) const;
  /// In terms of unmoved columns.
  LinearModel model(const std::vector<double>& unknowns) const;

 private:
  /// What a fold sums of each block, in doubles.
  struct Places;
  at::Tensor hessian(const double* grams) const;

  const Table& table_;
  const LogisticTask& task_;
  std::int64_t width_;
};

/// The class of each row of a block by a model's margins, which are of one output for two classes.
void tell_classes(const Table& table, const LinearModel& model, const Block& block, std::int32_t* numbers);

}  // namespace lockstep::ml
