#include "lockstep/parallel/layers/layer_norm.h"

#include <ATen/ops/layer_norm.h>

namespace lockstep::parallel {

LayerNormImpl::LayerNormImpl(std::int64_t width, double epsilon)
    : weight(declare("weight", {width}, InitialValues::constant(1))),
      bias(declare("bias", {width}, InitialValues::constant(0))),
      epsilon_(epsilon) {}

void LayerNormImpl::split_by(const std::string&) {
  gets_partial_gradient(weight);
  gets_partial_gradient(bias);
}

at::Tensor LayerNormImpl::forward(const at::Tensor& input) {
  return at::layer_norm(input, weight.sizes(), weight, bias, epsilon_);
}

}  // namespace lockstep::parallel
