// lockstep/ml/kernels/assign.h
//
// One sweep of Lloyd's algorithm over a block of rows: the nearest centroid of each
// row, and the sums of the rows of each centroid, while the row is in a register or
// the first cache. The bits of the result depend neither on the width of the
// processor's vectors nor on how the block lies in memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/ml/kernels/padded.h"

namespace lockstep::ml {

/// Centroids as the sweep reads them: the values of a column side by side, moved so that the centroids' mean is the
/// origin. Rows are compared by x·c - |c|²/2, which loses digits only as far as |c| is large.
template <class T>
class CentroidColumns {
 public:
  /// [count, columns], one row behind the other.
  CentroidColumns(std::span<const double> centroids, std::int64_t count, std::int64_t columns);

  std::int64_t count() const noexcept { return count_; }
  std::int64_t columns() const noexcept { return columns_; }
  /// [columns, count].
  const T* values() const noexcept { return values_.data(); }
  /// What to add to x·c, [count].
  const T* offsets() const noexcept { return offsets_.data(); }

 private:
  std::int64_t count_;
  std::int64_t columns_;
  std::vector<T> values_;
  std::vector<T> offsets_;
};

/// What a sweep adds to: of each centroid its rows' sum and weight.
struct ClusterSums {
  double* sums;     // [count, padded(columns)]
  double* weights;  // [count]
};

/// Writes the nearest centroid of each of `rows` rows into `labels` (of equally near ones the first) and returns how
/// many labels changed. Adds to `sums` unless its pointers are null. `weights` may be null: all 1.
template <class T>
std::int64_t assign(const T* x, std::int64_t rows, const CentroidColumns<T>& centroids, const double* weights,
                    std::int32_t* labels, ClusterSums sums);

/// |x - c|² of each row and the centroid of its label (null: all of the first), [count, columns], in float64.
template <class T>
void squared_distances(const T* x, std::int64_t rows, std::int64_t columns, const double* centroids,
                       const std::int32_t* labels, double* result);

}  // namespace lockstep::ml
