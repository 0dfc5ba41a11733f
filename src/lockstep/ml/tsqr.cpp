#include "lockstep/ml/tsqr.h"

#include <cmath>
#include <tuple>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/linalg_qr.h>

#include "lockstep/core/error.h"
#include "lockstep/core/one_thread.h"
#include "lockstep/ml/dense_blocks.h"
#include "lockstep/ml/fold.h"

namespace lockstep::ml {
namespace {

/// Writes the factor of `rows` to [width, width] zeros; of fewer rows than columns the last ones stay 0.
void factor(const at::Tensor& rows, at::Tensor to) {
  const OneThread same_bits;
  const at::Tensor r = std::get<1>(at::linalg_qr(rows, "r"));
  to.zero_().slice(0, 0, r.size(0)).copy_(r);
}

}  // namespace

at::Tensor triangular_factor(const Table& table, int threads, std::int64_t width,
                             const std::function<at::Tensor(const Block& block, int thread)>& rows_of) {
  const auto matrix = [&](const double* values) {
    return at::from_blob(const_cast<double*>(values), {width, width}, at::kDouble);
  };
  at::Tensor result =
      fold(table, threads,
           {.name = "tsqr",
            .size = width * width,
            .leaf = [&](const Block& block, std::int64_t, double* r,
                        int thread) { factor(rows_of(block, thread), matrix(r)); },
            .combine = [&](double* left,
                           const double* right) { factor(at::cat({matrix(left), matrix(right)}), matrix(left)); }})
          .view({width, width});
  if (!std::isfinite(result.sum().item<double>())) {
    check_finite(table);
    fail(Fault::Data, "squares of the columns are too large for float64; scale the columns");
  }
  // LAPACK leaves signs to chance: rows with an entry below 0 on the diagonal are turned around.
  const at::Tensor signs = result.diagonal().ge(0).to(at::kDouble) * 2 - 1;
  return result * signs.unsqueeze(1);
}

at::Tensor triangular_factor(const Table& table, int threads, const at::Tensor& shift) {
  DenseBlocks blocks(table, threads, shift);
  return triangular_factor(table, threads, blocks.width(),
                           [&](const Block& block, int thread) { return blocks(block, thread); });
}

}  // namespace lockstep::ml
