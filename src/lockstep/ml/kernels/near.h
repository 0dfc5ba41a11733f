// lockstep/ml/kernels/near.h
//
// Which rows may lie within the reach of which queries, by a product of all rows with all
// queries. A pair that is left out is farther apart than the reach, whatever rounding did;
// of one that is found the caller computes the distance itself, so that nothing depends on
// rounding here.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::ml {

namespace kernels {
/// 64 bytes, on their boundary.
template <class T>
struct alignas(64) Line {
  T values[64 / sizeof(T)];
};
}  // namespace kernels

/// Queries in panels of 64 bytes, each value beside those of its neighbours, moved by `shift` [columns]. A shift near
/// the rows' mean keeps digits; it must be that of the rows they are compared with.
template <class T>
class QueryPanels {
 public:
  static constexpr std::int64_t kWidth = 64 / sizeof(T);

  /// [count, columns], one behind the other. At first everything is within reach.
  QueryPanels(const T* queries, std::int64_t count, std::int64_t columns, const T* shift);

  /// From now on rows are looked for whose squared distance is at most this.
  void set_reach(std::int64_t query, double squared);
  /// From now on none is looked for.
  void drop(std::int64_t query);

  std::int64_t count() const noexcept { return count_; }
  std::int64_t columns() const noexcept { return columns_; }
  std::int64_t panels() const noexcept { return static_cast<std::int64_t>(least_.size()); }
  /// [columns, kWidth].
  const T* panel(std::int64_t number) const noexcept {
    return lines_[static_cast<std::size_t>(number * columns_)].values;
  }
  /// What the score of a row must reach, [panels, kWidth].
  const T* least() const noexcept { return least_.data()->values; }

 private:
  std::int64_t count_, columns_;
  std::vector<kernels::Line<T>> lines_;  // [panels, columns]
  std::vector<kernels::Line<T>> least_;  // [panels]
  std::vector<double> norms_;            // squared
};

/// Some rows, moved by a shift.
template <class T>
class MovedRows {
 public:
  /// [count, columns], one behind the other, of which it makes a copy.
  void take(const T* rows, std::int64_t count, std::int64_t columns, const T* shift);

  std::int64_t count() const noexcept { return static_cast<std::int64_t>(offsets_.size()); }
  const T* values() const noexcept { return values_.data(); }
  /// What is added to the product with a query.
  const T* offsets() const noexcept { return offsets_.data(); }

 private:
  std::vector<T> values_, offsets_;
};

struct NearPair {
  std::int32_t row;    // of the rows that were taken
  std::int32_t query;  // of the panels
};

/// Appends the pairs that may be within reach, in any order.
template <class T>
void find_near(const MovedRows<T>& rows, const QueryPanels<T>& queries, std::vector<NearPair>& found);

}  // namespace lockstep::ml
