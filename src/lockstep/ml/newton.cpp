#include "lockstep/ml/newton.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cholesky_solve.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_cholesky_ex.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include "lockstep/core/one_thread.h"

namespace lockstep::ml {
namespace {

/// Minus the inverse of the Hessian times the gradient; empty if that cannot be had.
std::vector<double> step_of(const Curve& curve, double damping) {
  const OneThread same_bits;
  const at::Tensor diagonal = curve.hessian.diagonal();
  const at::Tensor scale = at::where(diagonal.gt(0), diagonal.rsqrt(), at::ones_like(diagonal));
  const at::Tensor scaled = curve.hessian * at::outer(scale, scale);
  const at::Tensor right = (at::tensor(curve.gradient, at::kDouble) * scale).unsqueeze(1);
  const at::Tensor eye = at::eye(scaled.size(0), scaled.options());
  for (; damping <= 1; damping = std::max(damping * 100, 1e-14)) {
    const auto [factor, info] = at::linalg_cholesky_ex(scaled + damping * eye);
    if (info.item<int>() != 0) continue;
    const at::Tensor step = (-at::cholesky_solve(right, factor).squeeze(1) * scale).contiguous();
    return {step.const_data_ptr<double>(), step.const_data_ptr<double>() + step.numel()};
  }
  return {};
}

double sum_of_sizes(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::abs(value);
  return sum;
}

/// Whether `here` is enough better than `before`, of which it was to become better by `down`.
bool better(const Curve& here, const Curve& before, double down) {
  constexpr double kDecrease = 1e-4, kRounding = 16 * std::numeric_limits<double>::epsilon();
  if (here.value <= before.value - kDecrease * down) return true;
  // Where values differ by rounding alone the gradient tells more.
  return std::abs(here.value - before.value) <= kRounding * std::abs(before.value) &&
         sum_of_sizes(here.gradient) < sum_of_sizes(before.gradient);
}

}  // namespace

Minimum newton(const std::function<Curve(const std::vector<double>& x)>& curve, std::vector<double> x,
               const NewtonOptions& options) {
  Minimum found{.x = std::move(x)};
  Curve here = curve(found.x);
  found.converged = options.done(0, here.value, here.gradient);
  while (!found.converged && found.iterations < options.max_iter) {
    const std::vector<double> step = step_of(here, options.damping);
    double down = 0;
    for (std::size_t i = 0; i < step.size(); ++i) down -= step[i] * here.gradient[i];
    bool moved = false;
    constexpr double kShortest = 1e-9;
    for (double length = 1; down > 0 && !moved && length > kShortest; length /= 2) {
      std::vector<double> there = found.x;
      for (std::size_t i = 0; i < there.size(); ++i) there[i] += length * step[i];
      Curve next = curve(there);
      moved = better(next, here, length * down);
      if (!moved) {
        // Nothing more can be seen of what is left to win.
        if (length * down <= std::numeric_limits<double>::epsilon() * std::abs(here.value)) break;
        continue;
      }
      found.x = std::move(there);
      here = std::move(next);
    }
    if (!moved) {
      found.converged = true;  // as far as numbers go
      break;
    }
    ++found.iterations;
    found.converged = options.done(found.iterations, here.value, here.gradient);
  }
  found.value = here.value;
  return found;
}

}  // namespace lockstep::ml
