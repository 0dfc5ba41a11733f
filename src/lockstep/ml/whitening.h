// lockstep/ml/whitening.h
//
// Unknowns in which the loss of a linear model curves nearly alike in all directions, so
// that few iterations find its minimum: those of a table's columns times the Cholesky
// factor of their products, or of wide tables times their deviations.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/ml/table.h"

namespace lockstep::ml {

class Whitening {
 public:
  /// Of unknowns [outputs, columns and the intercept], where the loss curves by `share` times the mean products of the
  /// columns, which are moved by their mean, and by `l2`. Without an intercept nothing is moved. A collective.
  /// Fault::Data if their products are too large for float64.
  Whitening(const Table& table, bool fit_intercept, double share, double l2, int threads);

  /// float64 [columns]; zeros without an intercept.
  const at::Tensor& mean() const noexcept { return mean_; }

  std::vector<double> whitened(const std::vector<double>& unknowns) const;
  std::vector<double> unknowns(const std::vector<double>& whitened) const;
  /// By whitened unknowns, of that by unknowns, and back.
  std::vector<double> whitened_gradient(const std::vector<double>& gradient) const;
  std::vector<double> gradient(const std::vector<double>& whitened) const;

 private:
  at::Tensor mean_;
  at::Tensor factor_;  // [width, width], lower; or of a diagonal one [width]
};

}  // namespace lockstep::ml
