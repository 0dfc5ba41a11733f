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

/// Centroids as the sweep reads them: in panels of 64 bytes, each value beside those of its neighbours, moved so that
/// their mean is the origin. Rows are compared by x·c - |c|²/2, which loses digits only as far as |c| is large.
template <class T>
class CentroidPanels {
 public:
  /// [count, columns], one row behind the other.
  CentroidPanels(std::span<const double> centroids, std::int64_t count, std::int64_t columns);

  std::int64_t count() const noexcept { return count_; }
  std::int64_t columns() const noexcept { return columns_; }
  std::int64_t panels() const noexcept { return panels_; }
  /// [columns, kWidth], on a boundary of 64 bytes.
  const T* panel(std::int64_t number) const noexcept {
    return lines_[static_cast<std::size_t>(number * columns_)].values;
  }
  /// What to add to x·c, [panels, kWidth].
  const T* offsets() const noexcept { return offsets_.data()->values; }

  static constexpr std::int64_t kWidth = 64 / sizeof(T);

 private:
  struct alignas(64) Line {
    T values[kWidth];
  };

  std::int64_t count_;
  std::int64_t columns_;
  std::int64_t panels_;
  std::vector<Line> lines_;    // [panels, columns]
  std::vector<Line> offsets_;  // [panels]
};

/// What a sweep adds to: of each centroid its rows' sum and weight.
struct ClusterSums {
  double* sums;     // [count, padded(columns)]
  double* weights;  // [count]
};

/// Writes the nearest centroid of each of `rows` rows into `labels` (of equally near ones the first) and returns how
/// many labels changed. Adds to `sums` unless its pointers are null. `weights` may be null: all 1.
template <class T>
std::int64_t assign(const T* x, std::int64_t rows, const CentroidPanels<T>& centroids, const double* weights,
                    std::int32_t* labels, ClusterSums sums);

/// |x - c|² of each row and the centroid of its label (null: all of the first), [count, columns], in float64.
template <class T>
void squared_distances(const T* x, std::int64_t rows, std::int64_t columns, const double* centroids,
                       const std::int32_t* labels, double* result);

}  // namespace lockstep::ml
