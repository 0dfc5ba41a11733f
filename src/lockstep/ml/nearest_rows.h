// lockstep/ml/nearest_rows.h
//
// The nearest rows of queries by brute force, among rows of this process. Which ones they
// are is decided by exact distances in float64, and of equal ones by the row's number: it
// depends neither on threads nor on the order in which rows are looked at.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/ml/table.h"

namespace lockstep::ml {

struct Neighbor {
  double squared = std::numeric_limits<double>::infinity();  // distance
  std::int64_t row = std::numeric_limits<std::int64_t>::max();

  /// Whether it comes first.
  friend bool operator<(const Neighbor& one, const Neighbor& other) noexcept {
    return one.squared != other.squared ? one.squared < other.squared : one.row < other.row;
  }
};

/// Rows to look at, of one type, in blocks.
struct RowBlocks {
  std::int64_t count = 0;
  /// One of them, which may lie in `scratch`. Any thread may call.
  std::function<Block(std::int64_t number, at::Tensor& scratch)> block;

  /// Those of this rank.
  static RowBlocks of(const Table& table);
  /// Of rows in memory, float32 or float64 [rows, columns], contiguous, numbered from 0 on.
  static RowBlocks of(const at::Tensor& x);
};

/// The `k` nearest of each query, the nearest first: [queries, k]. Where there are fewer rows the last are as a
/// Neighbor is made. `queries` are [queries, columns], contiguous and of the rows' type.
std::vector<Neighbor> nearest_rows(const RowBlocks& rows, const at::Tensor& queries, std::int64_t k, int threads);

}  // namespace lockstep::ml
