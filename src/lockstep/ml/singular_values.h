// lockstep/ml/singular_values.h
//
// Singular values and right singular vectors of a table's rows: all of them, through the
// triangular factor, or the largest, by a random subspace that some sweeps turn towards them.
// Vectors of the left are (x - shift) · vᵀ / value, of whatever rows are wanted.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "lockstep/ml/table.h"

namespace lockstep::ml {

/// float64, the same on every rank.
struct SingularValues {
  at::Tensor values;   // [n], the largest first
  at::Tensor vectors;  // [n, columns], one in each row, signed by sign_rule_()
};

/// Of the rows less `shift`, if it is defined, times the roots of their weights. Collectives; the same bits on any
/// number of ranks and threads. Fault::Data if a value is not finite.
SingularValues singular_values(const Table& table, int threads, const at::Tensor& shift = {});

struct RandomSubspace {
  std::int64_t components = 2;
  std::int64_t oversamples = 10;  // vectors beside those, which make the result more exact
  std::int64_t iterations = 5;    // sweeps that turn the subspace, beside the first and the last
  std::uint64_t seed = 0;
};
/// The largest `components`, nearly: Halko, Martinsson and Tropp, "Finding structure with randomness" (2011).
SingularValues random_singular_values(const Table& table, int threads, const RandomSubspace& subspace,
                                      const at::Tensor& shift = {});

/// scikit-learn's: of each row, the entry of the largest magnitude is above 0.
void sign_rule_(at::Tensor vectors);

}  // namespace lockstep::ml
