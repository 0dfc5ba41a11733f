#include "lockstep/parallel/layers/convolution.h"

#include <array>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/convolution_backward.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/parallel/gradient_sink.h"
#include "lockstep/parallel/layers/compute_type.h"
#include "lockstep/parallel/tensor_parallel.h"
#include "lockstep/parallel/waiting.h"
#include "lockstep/parallel/weight_gradient.h"

namespace lockstep::parallel {
namespace {

/// What a convolution is given beside tensors, for backward to know, too.
struct Strides : torch::CustomClassHolder {
  std::int64_t stride = 1, padding = 0;
  comm::Communicator* ranks = nullptr;  // that have other output channels of the same images; nullptr: there are none
  ComputeType type;

  at::Tensor forward(const at::Tensor& images, const at::Tensor& weight, const std::optional<at::Tensor>& bias) const {
    return at::conv2d(images, weight, bias, {stride, stride}, {padding, padding});
  }
  /// Of images, weights and biases, those that are `wanted`.
  std::tuple<at::Tensor, at::Tensor, at::Tensor> backward(const at::Tensor& slopes, const at::Tensor& images,
                                                          const at::Tensor& weight, std::array<bool, 3> wanted) const {
    return at::convolution_backward(slopes, images, weight, c10::IntArrayRef{weight.size(0)}, {stride, stride},
                                    {padding, padding}, {1, 1}, /*transposed=*/false, {0, 0}, /*groups=*/1, wanted);
  }
};

/// Whose gradient of weights is computed while that of the images travels, or later.
struct DirectConvolution : torch::autograd::Function<DirectConvolution> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& images,
                            const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                            const c10::intrusive_ptr<Strides>& strides) {
    const at::Tensor values = strides->type.cast(images), factors = strides->type.cast(weight);
    context->save_for_backward({values, weight});
    context->saved_data["bias"] = bias.has_value();
    context->saved_data["strides"] = c10::IValue::make_capsule(strides);
    return strides->forward(values, factors, strides->type.cast(bias));
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& slopes_of_output) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &images = saved[0], &weight = saved[1];
    const auto capsule = context->saved_data["strides"].toCapsule();
    const auto& strides = static_cast<const Strides&>(*capsule);
    const at::Tensor& slopes = slopes_of_output[0];
    // Cast again, so that no copy of every weight is kept from forward to backward.
    const at::Tensor factors = strides.type.cast(weight);
    at::Tensor of_images, of_bias;
    comm::Work summed;
    if (context->needs_input_grad(0)) {
      of_images = std::get<0>(strides.backward(slopes, images, factors, {true, false, false}));
      const comm::CallOptions options{.name = "slopes of a layer", .lane = comm::Lane::Bulk};
      if (strides.ranks != nullptr) std::tie(of_images, summed) = start_sum(of_images, *strides.ranks, options);
    }
    if (context->saved_data["bias"].toBool() && context->needs_input_grad(2)) of_bias = slopes.sum({0, 2, 3});
    const at::Tensor of_weight =
        give_weight_gradient(weight, [slopes, images, factors, capsule, &strides](const at::Tensor& target, bool adds) {
          const at::Tensor gradient = std::get<1>(strides.backward(slopes, images, factors, {false, true, false}));
          adds ? target.add_(gradient) : target.copy_(gradient);
        });
    wait_for_ranks([&] { return std::move(summed); });
    return {of_images.defined() ? of_images.to(slopes.device()) : of_images, of_weight, of_bias, {}};
  }
};

}  // namespace

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
  const auto strides = c10::make_intrusive<Strides>();
  strides->stride = stride_;
  strides->padding = padding_;
  if (!sums_) strides->ranks = ranks();
  const auto maybe_bias = bias.defined() && !sums_ ? std::optional(bias) : std::nullopt;
  strides->type = ComputeType::of(weight);
  const bool trains = at::GradMode::is_enabled() && weight.requires_grad();
  const at::Tensor output = [&] {
    if (trains && gradient_sink(weight) != nullptr && strides->type.fits(images, weight))
      return DirectConvolution::apply(images, weight, maybe_bias, strides);
    return strides->forward(strides->ranks == nullptr ? images : to_all_ranks(images, *ranks()), weight, maybe_bias);
  }();
  if (!sums_) return output;
  const at::Tensor sum = sum_of_ranks(output, *ranks());
  return bias.defined() ? sum + strides->type.cast(bias).view({1, -1, 1, 1}) : sum;
}

}  // namespace lockstep::parallel
