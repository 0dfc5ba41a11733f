// lockstep/ml/minimum.h
//
// What the searches for the minimum of a function have in common.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace lockstep::ml {

struct Minimum {
  std::vector<double> x = {};
  double value = 0;
  std::int64_t iterations = 0;
  /// False: the most iterations came first. True also where no step would lower the value by more than rounding.
  bool converged = false;
};

/// Whether the gradient is small enough to end; asked at the start (iteration 0) and after each iteration.
using Done = std::function<bool(std::int64_t iteration, double value, const std::vector<double>& gradient)>;

}  // namespace lockstep::ml
