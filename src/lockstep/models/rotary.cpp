#include "lockstep/models/rotary.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/polar.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>

namespace lockstep::models {

at::Tensor rotary_turns(std::int64_t first, std::int64_t time, std::int64_t width, const at::Tensor& like) {
  constexpr double kSlowest = 10000;  // a whole turn takes from 2 pi to nearly so many times as many tokens
  // In float64: an angle of some thousand radians has few digits behind the point in float32.
  const auto exactly = like.options().dtype(at::kDouble).requires_grad(false);
  const at::Tensor speeds = at::pow(kSlowest, at::arange(0, width, 2, exactly) / -static_cast<double>(width));
  const at::Tensor angles = at::outer(at::arange(first, first + time, exactly), speeds);
  const at::Tensor turns = at::polar(at::ones_like(angles), angles);
  return like.scalar_type() == at::kDouble ? turns : turns.to(at::kComplexFloat);
}

at::Tensor rotated(const at::Tensor& values, const at::Tensor& turns) {
  const at::Tensor wide = values.to(c10::toRealValueType(turns.scalar_type()));
  const at::Tensor turned = at::view_as_complex(wide.unflatten(-1, {-1, 2})) * turns;
  return at::view_as_real(turned).flatten(-2).to(values.scalar_type());
}

}  // namespace lockstep::models
