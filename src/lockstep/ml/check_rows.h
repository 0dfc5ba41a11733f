// lockstep/ml/check_rows.h
//
// What a fitted model checks of rows before it touches them, so that other columns are an
// error and not somebody else's memory. All of it is Fault::Usage, unless it is said.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "lockstep/ml/table.h"

namespace lockstep::ml {

/// Fails unless it is.
void check_fitted(bool fitted);
/// Fails unless the model still knows what it saw of its rows, as it must to take more of them.
void check_can_go_on(bool knows_sums);
/// Of what a fit leaves, by columns last: how many these are. Fails if there was none.
std::int64_t fitted_columns(const at::Tensor& learned);

/// Rows as kernels take them: one behind the other, float32 as they are and all else as float64. Fails unless they are
/// a matrix of so many columns.
at::Tensor checked_rows(const at::Tensor& x, std::int64_t columns);
/// Fails unless it has so many columns.
void check_columns(const Table& table, std::int64_t columns);
/// Fails unless it has so many targets.
void check_targets(const Table& table, std::int64_t targets);
/// Of all rows together. Fault::Data unless they weigh something.
void check_weight(double weight);
/// Of the rows that a score is of, together. Fault::Data unless they weigh something.
void check_weight_of_scored(double weight);

}  // namespace lockstep::ml
