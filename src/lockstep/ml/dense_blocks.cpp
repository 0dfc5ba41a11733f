#include "lockstep/ml/dense_blocks.h"

#include <cmath>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

namespace lockstep::ml {

DenseBlocks::DenseBlocks(const Table& table, int threads, at::Tensor shift, bool with_targets)
    : table_(table),
      shift_(std::move(shift)),
      width_(table.columns() + (with_targets ? table.targets() : 0)),
      scratch_(static_cast<std::size_t>(threads)) {
  shift_ = shift_.defined() ? shift_.contiguous() : at::zeros({width_}, at::kDouble);
}

at::Tensor DenseBlocks::operator()(const Block& block, int thread) {
  at::Tensor& scratch = scratch_[static_cast<std::size_t>(thread)];
  if (!scratch.defined()) scratch = at::empty({table_.plan().block_rows, width_}, at::kDouble);
  const std::int64_t columns = table_.columns(), targets = width_ - columns;
  const double* shift = shift_.const_data_ptr<double>();
  double* to = scratch.mutable_data_ptr<double>();
  with_type_of(table_, [&]<class T>(T) {
    const T* x = block.x<T>();
    for (std::int64_t row = 0; row < block.rows; ++row, to += width_, x += columns) {
      for (std::int64_t column = 0; column < columns; ++column) to[column] = x[column] - shift[column];
      for (std::int64_t target = 0; target < targets; ++target) {
        to[columns + target] = block.targets[row * targets + target] - shift[columns + target];
      }
      if (block.weights == nullptr) continue;
      const double factor = std::sqrt(block.weights[row]);
      for (std::int64_t place = 0; place < width_; ++place) to[place] *= factor;
    }
  });
  return scratch.slice(0, 0, block.rows);
}

}  // namespace lockstep::ml
