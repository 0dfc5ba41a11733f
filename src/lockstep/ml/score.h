// lockstep/ml/score.h
//
// How good what was said of a table's rows is, where it was said of this rank's rows at
// once. Collectives; the same bits on any number of ranks and threads.
#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/ml/table.h"

namespace lockstep::ml {

/// The share of the targets' variance that `said`, float64 [own rows, targets], explains, the mean over targets, as
/// scikit-learn's r2_score.
double r2_of(const Table& table, const at::Tensor& said, int threads);

}  // namespace lockstep::ml
