// lockstep/ml/moments.h
//
// Means and variances of the columns of a table, in one sweep.
#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/ml/table.h"

namespace lockstep::ml {

/// float64 [columns] each. Variances are of all rows, not an estimate for more of them.
struct Moments {
  double weight = 0;  // the sum of weights
  at::Tensor mean;
  at::Tensor variance;
};
/// A collective; the same bits on any number of ranks and threads.
Moments moments(const Table& table, int threads);

/// Of all columns: by which tolerances are scaled.
double mean_variance(const Table& table, int threads);

}  // namespace lockstep::ml
