// lockstep/ml/gram.h
//
// Means and centred products of the columns of a table, in one sweep: what the linear
// family, covariances and principal components need of the rows.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "lockstep/ml/table.h"

namespace lockstep::ml {

/// Columns come first, then targets. float64.
struct Gram {
  double weight = 0;   // the sum of the rows' weights
  at::Tensor mean;     // [columns + targets]
  at::Tensor centred;  // [columns + targets] squared: the sums of weight · (z - mean) · (z - mean)ᵀ
};

/// The mean of the first block's rows, [columns + targets]: near enough to that of all that squares of what is moved by
/// it lose no digits. A collective.
at::Tensor first_mean(const Table& table);

/// A collective; the same bits on any number of ranks and threads. Fault::Data if a value is not finite.
Gram gram(const Table& table, int threads);

}  // namespace lockstep::ml
