// lockstep/ml/quantiles.h
//
// Quantiles of the columns of a table, in one sweep. What is kept of a column is a sketch: a
// sample of its values in order, each standing for equally many. Two sketches are merged by
// walking through both and taking values at equal distances, from a place on that chance
// decides, which is keyed by block and column: errors of many merges cancel, and the bits are
// the same on any number of ranks and threads. (Agarwal et al., "Mergeable summaries", 2012.)
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/ml/fold.h"
#include "lockstep/ml/table.h"

namespace lockstep::ml {

/// Values that a sketch keeps of a column: 1024, fewer where columns are more than 512. Tables of so few rows have
/// exact quantiles, as numpy's. Else a quantile's rank is wrong by about 0.7 in as many, of tables of 2^19 rows
/// or more, of which not all are looked at, by about 0.1 % more: docs/ml.md.
std::int64_t sketch_values(std::int64_t columns);

/// Of `shares` from 0 to 1: float64 [shares, columns], on every rank. Values that are not finite and rows of weight 0
/// are left out; others count once each. NaN for columns without any. A collective.
at::Tensor quantiles(const Table& table, int threads, const std::vector<double>& shares);

/// The same as a part of a sweep: see fold_all(). The table must live as long.
Fold quantiles_fold(const Table& table);
at::Tensor quantiles_of(const at::Tensor& folded, std::int64_t columns, const std::vector<double>& shares);

}  // namespace lockstep::ml
