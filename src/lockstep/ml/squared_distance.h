// lockstep/ml/squared_distance.h
//
// The squared distance of two rows in float64, from the first column to the last: what
// scikit-learn's trees compute, to the bit.
#pragma once

#include <cstdint>

namespace lockstep::ml {

template <class T>
double squared_distance(const T* one, const T* other, std::int64_t columns) noexcept {
  double sum = 0;
  for (std::int64_t column = 0; column < columns; ++column) {
    const double way = static_cast<double>(one[column]) - static_cast<double>(other[column]);
    sum += way * way;
  }
  return sum;
}

}  // namespace lockstep::ml
