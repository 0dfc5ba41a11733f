// lockstep/ml/kernels/moment_sums.h
//
// Counts, sums, squares and extremes of the columns of a block of rows, at about the speed
// at which memory is read. Values that are not finite are left out. The bits of the result
// depend neither on the width of the processor's vectors nor on how the block lies in memory.
#pragma once

#include <cstdint>

namespace lockstep::ml {

/// [columns] each; written, not added to.
struct MomentSums {
  double* count;     // values that are finite, of rows whose weight is above 0
  double* weight;    // of these
  double* sum;       // of weight · (x - shift)
  double* squares;   // of weight · (x - shift)²
  double* least;     // of these values and the shift
  double* greatest;  // of these values and the shift
};

/// `shift` has a finite value for each column. `weights` may be null: all 1.
template <class T>
void moment_sums(const T* x, const double* weights, std::int64_t rows, std::int64_t columns, const double* shift,
                 const MomentSums& sums);

}  // namespace lockstep::ml
