// lockstep/ml/class_moments.h
//
// Sums, means and squares of the columns of each class of rows, in one sweep: all that naive
// Bayes needs of them.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/ml/table.h"

namespace lockstep::ml {

struct ClassMoments {
  at::Tensor weight;   // float64 [classes]: the sum of the rows' weights
  at::Tensor sum;      // float64 [classes, columns], of weight · x
  at::Tensor mean;     // of a class without weight 0
  at::Tensor squares;  // of weight · (x - mean)²

  // Of all rows, as if each weighed 1, as in scikit-learn: float64 [columns].
  at::Tensor rows;  // their number
  at::Tensor rows_mean;
  at::Tensor rows_squares;
  at::Tensor least;
};

/// `numbers` are the classes of this rank's rows. A collective; the same bits on any number of ranks and threads.
/// Fault::Data if a value is not finite.
ClassMoments class_moments(const Table& table, const std::vector<std::int32_t>& numbers, std::int64_t classes,
                           int threads);
/// Of two tables together.
ClassMoments both(const ClassMoments& one, const ClassMoments& other);

}  // namespace lockstep::ml
