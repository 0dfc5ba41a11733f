#include "lockstep/parallel/layers/convolution.h"

#include <cmath>
#include <optional>

#include <ATen/TensorOperators.h>
#include <ATen/ops/conv2d.h>

#include "lockstep/parallel/tensor_parallel.h"

namespace lockstep::parallel {

ConvolutionImpl::ConvolutionImpl(const ConvolutionShape& shape) : stride_(shape.stride), padding_(shape.padding) {
  const auto bound =
      InitialValues::uniform(1 / std::sqrt(static_cast<double>(shape.inputs * shape.kernel * shape.kernel)));
  weight = declare("weight", {shape.outputs, shape.inputs, shape.kernel, shape.kernel}, bound);
  if (shape.bias) bias = declare("bias", {shape.outputs}, bound);
}

void ConvolutionImpl::split_by(const std::string& how) {
  sums_ = how == "row";
  cut(weight, {.dim = sums_ ? 1 : 0, .index = ranks()->rank(), .count = ranks()->size()});
  if (bias.defined() && !sums_) cut(bias, {.dim = 0, .index = ranks()->rank(), .count = ranks()->size()});
}

at::Tensor ConvolutionImpl::forward(const at::Tensor& images) {
  const auto convolved = [&](const at::Tensor& of, const std::optional<at::Tensor>& with) {
    return at::conv2d(of, weight, with, {stride_, stride_}, {padding_, padding_});
  };
  const auto maybe_bias = bias.defined() ? std::optional(bias) : std::nullopt;
  if (ranks() == nullptr) return convolved(images, maybe_bias);
  if (!sums_) return convolved(to_all_ranks(images, *ranks()), maybe_bias);
  const at::Tensor sum = sum_of_ranks(convolved(images, std::nullopt), *ranks());
  return bias.defined() ? sum + bias.view({1, -1, 1, 1}) : sum;
}

}  // namespace lockstep::parallel
