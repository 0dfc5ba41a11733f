// lockstep/ml/column_sums.h
//
// Sums, mean and squares of a column of rows, what they are taken about, and of two parts of
// the rows those of both.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "lockstep/ml/table.h"

namespace lockstep::ml {

/// Four words of what is folded; of rows that weigh something.
struct ColumnSums {
  double weight, sum, mean, squares;  // of weight · x, and of weight · (x - mean)²

  /// From the sums of weight · (x - shift) and of weight · (x - shift)².
  static ColumnSums about(double shift, double weight, double sum, double squares) {
    return {weight, sum + weight * shift, shift + sum / weight, std::max(squares - sum * (sum / weight), 0.0)};
  }

  /// Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances" (1979).
  void add(const ColumnSums& other) {
    const double both = weight + other.weight, way = other.mean - mean;
    mean += way * (other.weight / both);
    squares += other.squares + way * way * (weight * (other.weight / both));
    weight = both;
    sum += other.sum;
  }
};

/// Of each column the first finite value of a row that weighs something, or 0: it belongs to the rows, so that squares
/// of what is moved by it lose few digits, however large the mean. A value of weight 0 may be anything: moved by 1e8
/// of one that stands for a gap, squares near 1 would have none left.
template <class T>
void first_values(const Block& block, std::int64_t columns, double* found) {
  std::fill_n(found, columns, std::numeric_limits<double>::quiet_NaN());
  std::int64_t left = columns;
  for (std::int64_t row = 0; row < block.rows && left > 0; ++row) {
    if (!(block.weight(row) > 0)) continue;
    for (std::int64_t column = 0; column < columns; ++column) {
      const double value = block.x<T>()[row * columns + column];
      if (!std::isnan(found[column]) || !std::isfinite(value)) continue;
      found[column] = value;
      --left;
    }
  }
  std::replace_if(found, found + columns, [](double value) { return std::isnan(value); }, 0.0);
}

}  // namespace lockstep::ml
