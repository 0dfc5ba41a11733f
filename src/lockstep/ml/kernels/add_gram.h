// lockstep/ml/kernels/add_gram.h
//
// Sums of products of all pairs of columns over a block of rows: what the linear family,
// covariances and principal components are computed from. The bits of the result depend
// neither on the width of the processor's vectors nor on how the block lies in memory.
#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/ml/kernels/padded.h"

namespace lockstep::ml {

/// The columns of a row and those that go with it: z = (x - shift, targets - shift, 1).
struct GramShape {
  std::int64_t columns = 0;
  std::int64_t targets = 0;

  /// Of z.
  std::int64_t width() const noexcept { return columns + targets + 1; }
  /// Doubles from one row of the sums to the next: rows and their number are multiples of 8.
  std::int64_t stride() const noexcept { return padded(width()); }
  std::int64_t size() const noexcept { return stride() * stride(); }
};

/// What columns and targets are moved by before they are multiplied, so that large means cost no digits.
struct GramShift {
  const double* values;  // [columns + targets]
  /// None is so large beside what the values differ by that it would cost more than a digit or two if one factor of
  /// each product were not moved: rows are then multiplied where they lie.
  bool small = false;
};

/// Memory of a thread between calls.
class GramScratch {
 public:
  /// On a boundary of 64 bytes.
  double* take(std::int64_t doubles);

 private:
  struct Free {
    void operator()(double* memory) const noexcept;
  };
  std::unique_ptr<double, Free> memory_;
  std::int64_t doubles_ = 0;
};

/// Adds weight · z · zᵀ of `rows` rows to `sums`, [stride, stride]: of the entries (i, j) with i >= j, others may be
/// anything. `targets` are [rows, targets], `weights` may be null: all 1.
template <class T>
void add_gram(const T* x, const double* targets, const double* weights, std::int64_t rows, const GramShape& shape,
              GramShift shift, double* sums, GramScratch& scratch);

}  // namespace lockstep::ml
