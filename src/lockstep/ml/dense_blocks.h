// lockstep/ml/dense_blocks.h
//
// Blocks of a table as BLAS and LAPACK take them: copies in float64, always on a boundary of
// 64 bytes, since the bits of what they give may depend on it.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/ml/table.h"

namespace lockstep::ml {

class DenseBlocks {
 public:
  /// Of `shift`, float64 [columns], nothing is taken off if it is not defined. Targets follow the columns if they are
  /// wanted; then the shift has values for them too.
  DenseBlocks(const Table& table, int threads, at::Tensor shift = {}, bool with_targets = false);

  std::int64_t width() const noexcept { return width_; }
  /// [rows, width()]: the rows minus the shift, times the roots of their weights. The same thread's next call
  /// overwrites it.
  at::Tensor operator()(const Block& block, int thread);

 private:
  const Table& table_;
  at::Tensor shift_;
  std::int64_t width_;
  std::vector<at::Tensor> scratch_;  // by thread
};

}  // namespace lockstep::ml
