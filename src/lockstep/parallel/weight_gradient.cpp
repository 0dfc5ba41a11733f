#include "lockstep/parallel/weight_gradient.h"

#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>

#include "lockstep/parallel/gradient_sink.h"
#include "lockstep/parallel/late_gradients.h"

namespace lockstep::parallel {
namespace {

void write_to_sink(const at::Tensor& weight, const WriteGradient& write) {
  const at::NoGradGuard no_gradients;
  GradientSink* sink = gradient_sink(weight);
  const at::Tensor target = sink->target();
  if (weight.grad().defined()) move_gradient(weight, target);  // of another use of it, which autograd has summed
  write(target, weight.grad().defined());
  weight.mutable_grad() = target;
  sink->ready();
}

}  // namespace

at::Tensor give_weight_gradient(const at::Tensor& weight, WriteGradient write) {
  if (gradient_sink(weight) == nullptr) {
    at::Tensor gradient = at::empty_like(weight);
    write(gradient, /*adds=*/false);
    return gradient;
  }
  if (LateGradients* late = LateGradients::now()) {
    late->add(weight, [weight, write = std::move(write)] { write_to_sink(weight, write); });
  } else {
    write_to_sink(weight, write);
  }
  return {};
}

}  // namespace lockstep::parallel
