// lockstep/ml/least_squares.h
//
// Coefficients from centred products: the system of normal equations, whose unknowns are
// scaled so that columns of any size count alike, by its eigenvectors. Products square the
// condition of the columns; where that leaves too few digits, the triangular factor of the
// rows takes their place.
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
/// The same where nobody need wonder: the columns that fields became by --onehot sum up to 1, as the intercept does.
void tell_of_onehot(const std::vector<std::string>& fields);
/// Beside an intercept such columns explain nothing.
void warn_of_constant(const Table& table, const Gram& gram);

/// Made once, it gives the coefficients for any penalty.
class NormalEquations {
 public:
  /// The first `columns` of the Gram are columns, the others targets.
  NormalEquations(const Gram& gram, std::int64_t columns, bool fit_intercept);
  /// By the triangular factor of the centred rows, [columns + targets] squared: singular values of columns instead of
  /// eigenvalues of products. The rows are `stored` as float32 or float64, whose rounding makes no column independent.
  NormalEquations(const Gram& gram, const at::Tensor& factor, at::ScalarType stored, std::int64_t columns,
                  bool fit_intercept);

  /// The largest by the smallest eigenvalue of the products with this penalty, whose unknowns are scaled. Constant
  /// columns do not count. A penalty makes it no larger.
  double condition(double alpha = 0) const;
  /// The same without a penalty, where columns depend on each other in so many ways that are known, and which the least
  /// norm sees to. With others it is condition().
  double condition_but_for(std::int64_t known) const;
  /// Whether they depend on each other in so many ways, and constant columns are all else that is not determined.
  bool depends_only_by(std::int64_t known) const;
  /// Least squares, and with alpha above 0 ridge regression: sum of squares + alpha · |coef|². Where columns depend on
  /// each other, of all solutions the one of the least norm.
  LinearModel solve(double alpha = 0) const;
  /// Columns that are constant, or depend on others, so that their coefficients are not determined: by number.
  const std::vector<std::int64_t>& undetermined() const noexcept { return undetermined_; }
  /// Of all coefficients that say the same of the rows as `model` those of the least norm.
  LinearModel least_norm(const LinearModel& model) const;

 private:
  /// Means, products, and how unknowns are scaled.
  void take(const Gram& gram, std::int64_t columns);
  void find_null_space(std::int64_t nulls);
  void find_undetermined();
  at::Tensor by_factor(double alpha) const;
  at::Tensor solved(const at::Tensor& right, double alpha) const;
  at::Tensor through_origin(const at::Tensor& coef, double alpha) const;
  at::Tensor without_nulls(const at::Tensor& columns) const;

  double weight_ = 0;
  at::Tensor x_mean_, y_mean_;
  bool fit_intercept_;
  at::Tensor products_, with_targets_;   // centred: [columns, columns], [columns, targets]
  at::Tensor constant_;                  // which columns are
  at::Tensor scale_, values_, vectors_;  // of scale · products · scale
  at::Tensor factor_, factor_targets_;   // instead of products, if it is defined: factorᵀ · factor is what they are
  at::Tensor roots_, left_;              // of factor · scale: singular values, and vectors of the left
  at::Tensor null_space_;                // [columns, n], orthonormal, of unscaled unknowns
  at::Tensor free_;                      // that of it, or all, of which the data say nothing
  at::Tensor steady_;                    // [columns, 1]: combines columns to a constant other than 0, if they can be
  std::vector<std::int64_t> undetermined_;
};

}  // namespace lockstep::ml
