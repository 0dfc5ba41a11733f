// lockstep/ml/newton.h
//
// The minimum of a convex function of few unknowns by Newton's method: each step solves the
// system of the Hessian by Cholesky, and is halved until the value falls.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/ml/minimum.h"

namespace lockstep::ml {

/// A function near one place.
struct Curve {
  double value = 0;
  std::vector<double> gradient = {};
  at::Tensor hessian = {};  // float64 [unknowns, unknowns]
};

struct NewtonOptions {
  std::int64_t max_iter = 100;
  /// Added to the diagonal of the Hessian, whose unknowns are scaled so that it is 1: above 0 where some directions
  /// change nothing.
  double damping = 0;
  Done done = {};
};

Minimum newton(const std::function<Curve(const std::vector<double>& x)>& curve, std::vector<double> x,
               const NewtonOptions& options);

}  // namespace lockstep::ml
