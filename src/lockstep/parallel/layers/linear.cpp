#include "lockstep/parallel/layers/linear.h"

#include <cmath>
#include <optional>

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/init.h>

#include "lockstep/parallel/gradient_sink.h"

namespace lockstep::parallel {
namespace {

/// Of the rows of `slopes` and `input`; into the sink if the parameter has one, else returned.
at::Tensor weight_gradient(const at::Tensor& weight, const at::Tensor& slopes, const at::Tensor& input) {
  GradientSink* sink = gradient_sink(weight);
  if (sink == nullptr) return slopes.t().mm(input);
  at::Tensor target = sink->target();
  if (weight.grad().defined()) {
    target.addmm_(slopes.t(), input);
  } else {
    at::mm_out(target, slopes.t(), input);
    weight.mutable_grad() = target;
  }
  sink->ready();
  return {};
}

struct DirectLinear : torch::autograd::Function<DirectLinear> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
    context->save_for_backward({input, weight});
    context->saved_data["bias"] = bias.has_value();
    return at::linear(input, weight, bias);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& slopes_of_output) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &input = saved[0], &weight = saved[1];
    const at::Tensor slopes = slopes_of_output[0].reshape({-1, weight.size(0)});
    at::Tensor of_input, of_bias;
    // The weight's last, for once that is ready new weights may come.
    if (context->needs_input_grad(0)) of_input = slopes.mm(weight).view(input.sizes());
    if (context->saved_data["bias"].toBool() && context->needs_input_grad(2)) of_bias = slopes.sum(0);
    return {of_input, weight_gradient(weight, slopes, input.reshape({-1, weight.size(1)})), of_bias};
  }
};

}  // namespace

LinearImpl::LinearImpl(std::int64_t inputs, std::int64_t outputs, bool with_bias)
    : weight(register_parameter("weight", at::empty({outputs, inputs}))),
      bias(with_bias ? register_parameter("bias", at::empty({outputs})) : at::Tensor()) {
  torch::nn::init::kaiming_uniform_(weight, std::sqrt(5));
  const double bound = 1 / std::sqrt(static_cast<double>(inputs));
  if (with_bias) torch::nn::init::uniform_(bias, -bound, bound);
}

at::Tensor LinearImpl::forward(const at::Tensor& input) {
  const bool direct = at::GradMode::is_enabled() && weight.requires_grad() && gradient_sink(weight) != nullptr &&
                      input.scalar_type() == weight.scalar_type() &&
                      !at::autocast::is_autocast_enabled(weight.device().type());
  const auto maybe_bias = bias.defined() ? std::optional(bias) : std::nullopt;
  return direct ? DirectLinear::apply(input, weight, maybe_bias) : at::linear(input, weight, maybe_bias);
}

}  // namespace lockstep::parallel
