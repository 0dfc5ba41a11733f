// lockstep/ml/least_squares.h
//
// Coefficients from centred products: the system of normal equations, whose unknowns are
// scaled so that columns of any size count alike, by its eigenvectors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/ml/gram.h"
#include "lockstep/ml/linear_model.h"

namespace lockstep::ml {

/// Of columns by their names, which are not determined().
void warn_of_undetermined(const std::vector<std::string>& names);

/// Made once, it gives the coefficients for any penalty.
class NormalEquations {
 public:
  /// The first `columns` of the Gram are columns, the others targets.
  NormalEquations(const Gram& gram, std::int64_t columns, bool fit_intercept);

  /// Least squares, and with alpha above 0 ridge regression: sum of squares + alpha · |coef|². Where columns depend on
  /// each other, of all solutions the one of the least norm.
  LinearModel solve(double alpha = 0) const;
  /// Columns that are constant, or depend on others, so that their coefficients are not determined: by number.
  const std::vector<std::int64_t>& undetermined() const noexcept { return undetermined_; }
  /// Of all coefficients that say the same of the rows as `model` those of the least norm.
  LinearModel least_norm(const LinearModel& model) const;

 private:
  void find_null_space(const at::Tensor& constant, std::int64_t nulls);
  void find_undetermined();
  at::Tensor solved(const at::Tensor& right, double alpha) const;
  at::Tensor through_origin(const at::Tensor& coef, double alpha) const;
  at::Tensor without_nulls(const at::Tensor& columns) const;

  double weight_;
  at::Tensor x_mean_, y_mean_;
  bool fit_intercept_;
  at::Tensor products_, with_targets_;   // centred: [columns, columns], [columns, targets]
  at::Tensor scale_, values_, vectors_;  // of scale · products · scale
  at::Tensor null_space_;                // [columns, n], orthonormal, of unscaled unknowns
  at::Tensor free_;                      // that of it, or all, of which the data say nothing
  at::Tensor steady_;                    // [columns, 1]: combines columns to a constant other than 0, if they can be
  std::vector<std::int64_t> undetermined_;
};

}  // namespace lockstep::ml
