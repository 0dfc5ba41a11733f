// lockstep/ml/tsqr.h
//
// The triangular factor R of tall matrices whose rows lie on several ranks: RᵀR is the matrix
// of their products, but R has all digits of their singular values, where products have lost
// half of them. Blocks are factored by LAPACK and combined in the fixed tree (Demmel et al.,
// "Communication-optimal parallel and sequential QR and LU factorizations", 2012).
#pragma once

#include <cstdint>
#include <functional>

#include <ATen/core/Tensor.h>

#include "lockstep/ml/table.h"

namespace lockstep::ml {

/// float64 [width, width], upper triangular, with nothing below 0 on its diagonal; on every rank. `rows_of` gives the
/// rows that are made of a block, float64 [rows, width], on a boundary of 64 bytes; it is called on any thread. A
/// collective; the same bits on any number of ranks and threads. Fault::Data if a value is not finite.
at::Tensor triangular_factor(const Table& table, int threads, std::int64_t width,
                             const std::function<at::Tensor(const Block& block, int thread)>& rows_of);

/// Of the columns, less `shift` if it is defined, times the roots of the rows' weights.
at::Tensor triangular_factor(const Table& table, int threads, const at::Tensor& shift = {});

}  // namespace lockstep::ml
