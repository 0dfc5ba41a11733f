// lockstep/ml/check_rows.h
//
// What a fitted model checks of rows before it touches them, so that other columns are an
// error and not somebody else's memory. All of it is Fault::Usage.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "lockstep/ml/table.h"

namespace lockstep::ml {

/// Fails unless it is.
void check_fitted(bool fitted);
/// Of what a fit leaves, by columns last: how many these are. Fails if there was none.
std::int64_t fitted_columns(const at::Tensor& learned);

/// Rows as kernels take them: one behind the other, float32 as they are and all else as float64. Fails unless they are
/// a matrix of so many columns.
at::Tensor checked_rows(const at::Tensor& x, std::int64_t columns);
/// Fails unless it has so many columns.
void check_columns(const Table& table, std::int64_t columns);
/// Fails unless it has so many targets.
void check_targets(const Table& table, std::int64_t targets);

}  // namespace lockstep::ml
