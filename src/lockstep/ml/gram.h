// lockstep/ml/gram.h
//
// Means and centred products of the columns of a table, in one sweep: what the linear
// family, covariances and principal components need of the rows.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/ml/table.h"

namespace lockstep::ml {

/// Columns come first, then targets. float64.
struct Gram {
  double weight = 0;   // the sum of the rows' weights
  at::Tensor mean;     // [columns + targets]
  at::Tensor centred;  // [columns + targets] squared: the sums of weight · (z - mean) · (z - mean)ᵀ
  at::Tensor far;      // [columns + targets]: how far from 0 they lie, which the rounding of their mean goes by
};

/// Of parts that were put together: products of columns and targets that differ by the rounding of means alone are 0.
void drop_rounding(Gram& gram);
/// Of each column and target whether its values differ by rounding alone, so that its products are 0: bool
/// [columns + targets].
at::Tensor is_constant(const Gram& gram);

/// How the rows of the first block lie that weighs something.
struct FirstLook {
  at::Tensor
      mean;    // [columns + targets]: near enough to that of all that squares of what is moved by it lose no digits
  bool small;  // no mean is more than a few times what the values differ by: see GramShift
};
/// A collective.
FirstLook first_look(const Table& table);

/// A collective; the same bits on any number of ranks and threads. Fault::Data if a value is not finite.
Gram gram(const Table& table, int threads);

/// The same of each of `parts` parts of the rows by itself, from one sweep; `part_of` says of each of this rank's rows
/// which it is in. The mean of a part without weight says nothing.
std::vector<Gram> gram_of_parts(const Table& table, const std::vector<std::int16_t>& part_of, std::int64_t parts,
                                int threads);
/// That of all parts but one (-1: of all), which are added in their order.
Gram together(const std::vector<Gram>& parts, std::int64_t without = -1);

}  // namespace lockstep::ml
