#include "lockstep/ml/singular_values.h"

#include <algorithm>
#include <tuple>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/linalg_svd.h>

#include "lockstep/core/one_thread.h"
#include "lockstep/core/random.h"
#include "lockstep/ml/dense_blocks.h"
#include "lockstep/ml/fold.h"
#include "lockstep/ml/tsqr.h"

namespace lockstep::ml {
namespace {

/// Of a triangular factor, whose rows are coordinates in `basis`, [columns, width], if there is one. Hosts may compute
/// the last bits in different ways: all take those of rank 0.
SingularValues of_factor(const Table& table, const at::Tensor& factor, const at::Tensor& basis, std::int64_t count) {
  SingularValues result;
  {
    const OneThread same_bits;
    const auto [left, values, right] = at::linalg_svd(factor, /*full_matrices=*/false);
    result.values = values.slice(0, 0, count).contiguous();
    const at::Tensor own = right.slice(0, 0, count);
    result.vectors = (basis.defined() ? own.matmul(basis.t()) : own).contiguous();
  }
  sign_rule_(result.vectors);
  table.group().broadcast_({result.values, result.vectors}, 0, {.name = "singular values"}).wait();
  return result;
}

at::Tensor drawn(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  const at::Tensor result = at::empty({rows, columns}, at::kDouble);
  for (std::int64_t row = 0; row < rows; ++row) {
    Random random(seed, static_cast<std::uint64_t>(row));
    for (std::int64_t column = 0; column < columns; ++column) {
      result.mutable_data_ptr<double>()[row * columns + column] = random.normal();
    }
  }
  return result;
}

/// An orthonormal basis of what the columns of `directions` span; the same on every rank.
at::Tensor basis_of(const Table& table, const at::Tensor& directions) {
  const OneThread same_bits;
  at::Tensor basis = std::get<0>(at::linalg_qr(directions)).contiguous();
  table.group().broadcast_(basis, 0, {.name = "basis"}).wait();
  return basis;
}

/// xᵀ · x · basis.
at::Tensor turned(const Table& table, int threads, DenseBlocks& blocks, const at::Tensor& basis) {
  const std::int64_t width = basis.size(1), columns = basis.size(0);
  return fold(table, threads,
              {.name = "subspace",
               .size = columns * width,
               .leaf =
                   [&](const Block& block, std::int64_t, double* sum, int thread) {
                     const OneThread same_bits;
                     const at::Tensor x = blocks(block, thread);
                     at::from_blob(sum, {columns, width}, at::kDouble).addmm_(x.t(), x.mm(basis));
                   }})
      .view({columns, width});
}

}  // namespace

SingularValues singular_values(const Table& table, int threads, const at::Tensor& shift) {
  return of_factor(table, triangular_factor(table, threads, shift), {}, std::min(table.rows(), table.columns()));
}

SingularValues random_singular_values(const Table& table, int threads, const RandomSubspace& subspace,
                                      const at::Tensor& shift) {
  const std::int64_t columns = table.columns(), width = subspace.components + subspace.oversamples;
  const std::int64_t count = std::min({subspace.components, table.rows(), columns});
  DenseBlocks blocks(table, threads, shift);
  at::Tensor basis;
  if (width < columns) {
    basis = basis_of(table, drawn(columns, width, subspace.seed));
    for (std::int64_t sweep = 0; sweep <= subspace.iterations; ++sweep) {
      basis = basis_of(table, turned(table, threads, blocks, basis));
    }
  }
  // Of all rows in the subspace's coordinates; one as wide as the columns is all of space, and nothing is left to
  // chance.
  const auto rows_of = [&](const Block& block, int thread) {
    const at::Tensor x = blocks(block, thread);
    if (!basis.defined()) return x;
    const OneThread same_bits;
    return x.mm(basis);
  };
  return of_factor(table, triangular_factor(table, threads, std::min(width, columns), rows_of), basis, count);
}

void sign_rule_(at::Tensor vectors) {
  const at::Tensor largest = vectors.gather(1, vectors.abs().argmax(1, /*keepdim=*/true));
  vectors.mul_(largest.ge(0).to(vectors.scalar_type()) * 2 - 1);
}

}  // namespace lockstep::ml
