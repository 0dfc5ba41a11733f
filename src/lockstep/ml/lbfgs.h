// lockstep/ml/lbfgs.h
//
// The minimum of a smooth function of many unknowns from its values and gradients, by
// L-BFGS (Liu and Nocedal 1989) and a line search that ends at the strong Wolfe conditions.
// The same function gives the same bits.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "lockstep/ml/minimum.h"

namespace lockstep::ml {

/// The value at `x`, whose gradient it writes. Not finite: the search keeps nearer to where it comes from.
using Slope = std::function<double(const std::vector<double>& x, std::vector<double>& gradient)>;

struct LbfgsOptions {
  std::int64_t max_iter = 100;
  std::int64_t memory = 10;  // steps that are remembered
  Done done = {};
};

Minimum lbfgs(const Slope& slope, std::vector<double> x, const LbfgsOptions& options);

}  // namespace lockstep::ml
