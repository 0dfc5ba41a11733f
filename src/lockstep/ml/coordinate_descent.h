// lockstep/ml/coordinate_descent.h
//
// Least squares with penalties on the size and the square of each coefficient, from products
// of the columns alone: one coefficient after another goes to where the objective is least,
// until the duality gap says how little is left to win.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::ml {

/// ½ |y - x · coefᵀ|² + l1 · Σ|coef| + ½ l2 · |coef|², as xᵀx, xᵀy and yᵀy say it.
struct PenalisedSquares {
  std::int64_t columns = 0;
  const double* products = nullptr;     // [columns, columns]
  const double* with_target = nullptr;  // [columns]
  double target = 0;                    // yᵀy
  double l1 = 0;
  double l2 = 0;
  bool positive = false;  // no coefficient is below 0
};

struct DescentOptions {
  double tol = 1e-4;  // of the duality gap, times yᵀy; also of the largest change beside the largest coefficient
  std::int64_t max_iter = 1000;
};

struct Descent {
  double gap = 0;
  std::int64_t iterations = 0;
  bool converged = false;
};

/// From the coefficients that `coef` holds to the best ones. Columns whose product with themselves is 0 have none.
Descent descend_(std::vector<double>& coef, const PenalisedSquares& objective, const DescentOptions& options);

}  // namespace lockstep::ml
