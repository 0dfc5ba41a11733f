// lockstep/ml/least_squares.h
//
// Coefficients from centred products: the system of normal equations, whose unknowns are
// scaled so that columns of any size count alike, by its eigenvectors.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/ml/gram.h"

namespace lockstep::ml {

/// y ≈ x · coefᵀ + intercept.
struct LinearModel {
  at::Tensor coef;       // float64 [targets, columns]
  at::Tensor intercept;  // float64 [targets]

  /// float64 [rows, targets].
  at::Tensor predict(const at::Tensor& x) const;
};

/// Made once, it gives the coefficients for any penalty.
class NormalEquations {
 public:
  /// The first `columns` of the Gram are columns, the others targets. Without an intercept nothing is centred.
  NormalEquations(const Gram& gram, std::int64_t columns, bool fit_intercept);

  /// Least squares; where columns depend on each other, of all solutions the one of the least norm.
  LinearModel solve() const;
  /// Ridge regression: sum of squares + alpha · |coef|².
  LinearModel solve(double alpha) const;
  /// Columns that are constant, or depend on others, so that their coefficients are not determined: by number.
  const std::vector<std::int64_t>& undetermined() const noexcept { return undetermined_; }

 private:
  LinearModel model_of(const at::Tensor& coef) const;

  at::Tensor mean_;
  std::int64_t columns_;
  bool fit_intercept_;
  at::Tensor products_, with_targets_;   // [columns, columns], [columns, targets]
  at::Tensor scale_, values_, vectors_;  // of scale · products · scale
  at::Tensor null_space_;                // [columns, n], orthonormal, of unscaled unknowns
  std::vector<std::int64_t> undetermined_;
};

}  // namespace lockstep::ml
