// lockstep/ml/kernels/logistic.h
//
// The logistic loss of a block of rows, its gradient and the rows' probabilities, in one
// sweep: margins, exponentials and the gradient of some rows while they are in the first
// cache. The bits of the result depend neither on the width of the processor's vectors nor
// on how the block lies in memory.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/ml/kernels/padded.h"

namespace lockstep::ml {

/// Where the loss is looked at: margins are x · coefᵀ + intercept. One output tells two classes apart, its margin is
/// that of class 1; more outputs are a class each.
struct LogisticPoint {
  std::int64_t columns = 0;
  std::int64_t outputs = 1;
  const double* coef = nullptr;       // [outputs, padded(columns)], zeros beyond the columns
  const double* intercept = nullptr;  // [outputs]
};

/// What rows add to.
struct LogisticSums {
  double* loss = nullptr;
  double* gradient = nullptr;  // [outputs, padded(columns + 1)]: by coefficient, then by intercept; on 64 bytes
};

/// Memory of a thread between calls.
struct LogisticScratch {
  struct alignas(64) Line {
    double values[8];
  };
  std::vector<Line> lines;
};

/// Adds the loss of `rows` rows and its gradient. `classes` are numbers from 0 on, `weights` may be null: all 1.
/// `probabilities`, [outputs, padded(rows)], may be null. Without `classes` they alone are made.
template <class T>
void add_logistic(const T* x, std::int64_t rows, const LogisticPoint& point, const std::int32_t* classes,
                  const double* weights, LogisticSums sums, double* probabilities, LogisticScratch& scratch);

}  // namespace lockstep::ml
