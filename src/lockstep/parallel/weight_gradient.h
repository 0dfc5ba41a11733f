// lockstep/parallel/weight_gradient.h
//
// The way of a weight's gradient out of the backward of a layer that computes it apart from its input's: to its
// place in memory, if somebody has said where that is, and in a pipeline at a time when there is nothing else to do.
#pragma once

#include <functional>

#include <ATen/core/Tensor.h>

namespace lockstep::parallel {

/// Computes it, into `target` or, if `adds`, on top of what is there; without autograd.
using WriteGradient = std::function<void(const at::Tensor& target, bool adds)>;

/// What backward returns of the weight: the gradient, or nothing if it has a sink, which then has it at once or by
/// LateGradients. A weight that another layer shares must not come here: nobody could say when it is complete.
at::Tensor give_weight_gradient(const at::Tensor& weight, WriteGradient write);

}  // namespace lockstep::parallel
