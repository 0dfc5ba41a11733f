#include "lockstep/parallel/matrix_products.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/stack.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/comm/instruction_set.h"
#include "lockstep/core/cpu.h"

namespace lockstep::parallel {
namespace {

std::optional<c10::OperatorHandle> find_onednn_linear() {
  // Where instructions are pinned to fewer, as exact mode does, MKL's are, too.
  const char* pinned = std::getenv("ONEDNN_MAX_CPU_ISA");
  const bool all = pinned == nullptr || std::string(pinned).starts_with("AVX512");
  if (!all || cpu_maker() != "amd" || comm::instruction_set() != comm::InstructionSet::Avx512) return std::nullopt;
  return c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
}

/// If it is faster here.
const std::optional<c10::OperatorHandle>& onednn_linear() {
  static const auto operation = find_onednn_linear();
  return operation;
}

/// Whether a product of [rows, inner] and [inner, columns] is one for oneDNN. Of two sizes that are those of a weight
/// and not the number of samples, so that what a few samples take tells what many take.
bool is_for_onednn(const at::Tensor& left, const at::Tensor& right, std::int64_t columns) {
  constexpr std::int64_t kWorthAsking = 1 << 16;
  if (!onednn_linear() || left.numel() == 0 || !left.is_cpu() || !right.is_cpu() || left.scalar_type() != at::kFloat ||
      right.scalar_type() != at::kFloat || at::autocast::is_autocast_enabled(at::kCPU)) {
    return false;
  }
  const std::int64_t inner = left.size(-1), rows = left.numel() / inner;
  return std::max({rows * inner, inner * columns, rows * columns}) >= kWorthAsking;
}

/// left · rightᵀ + bias of matrices.
at::Tensor by_onednn(const at::Tensor& left, const at::Tensor& right, const std::optional<at::Tensor>& bias) {
  torch::jit::Stack stack;
  torch::jit::push(stack, left, right, bias, std::string("none"), c10::List<std::optional<at::Scalar>>(),
                   std::string());
  onednn_linear()->callBoxed(stack);
  return torch::jit::pop(stack).toTensor();
}

at::Tensor rows_of(const at::Tensor& values) { return values.reshape({-1, values.size(-1)}); }

at::Tensor linear_by_onednn(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  std::vector<std::int64_t> sizes = input.sizes().vec();
  sizes.back() = weight.size(0);
  return by_onednn(rows_of(input), weight, bias).view(sizes);
}

struct OnednnLinear : torch::autograd::Function<OnednnLinear> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
    context->save_for_backward({input, weight});
    context->saved_data["bias"] = bias.has_value();
    return linear_by_onednn(input, weight, bias);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& slopes_of_output) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &input = saved[0], &weight = saved[1];
    const at::Tensor slopes = rows_of(slopes_of_output[0]);
    at::Tensor of_input, of_weight, of_bias;
    if (context->needs_input_grad(0)) of_input = product(slopes, weight).view(input.sizes());
    if (context->needs_input_grad(1)) of_weight = product(slopes.t(), rows_of(input));
    if (context->saved_data["bias"].toBool() && context->needs_input_grad(2)) of_bias = slopes.sum(0);
    return {of_input, of_weight, of_bias};
  }
};

}  // namespace

at::Tensor linear_map(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  if (!is_for_onednn(input, weight, weight.size(0))) return at::linear(input, weight, bias);
  const bool trains = input.requires_grad() || weight.requires_grad() || (bias && bias->requires_grad());
  if (at::GradMode::is_enabled() && trains) return OnednnLinear::apply(input, weight, bias);
  return linear_by_onednn(input, weight, bias);
}

at::Tensor product(const at::Tensor& left, const at::Tensor& right) {
  return is_for_onednn(left, right, right.size(1)) ? by_onednn(left, right.t(), std::nullopt) : at::mm(left, right);
}

void product_out(const at::Tensor& target, const at::Tensor& left, const at::Tensor& right) {
  const bool alike = target.device() == left.device() && target.scalar_type() == left.scalar_type();
  if (is_for_onednn(left, right, right.size(1)) || !alike) {
    target.copy_(product(left, right));
  } else {
    at::Tensor to = target;
    at::mm_out(to, left, right);
  }
}

void add_product(const at::Tensor& target, const at::Tensor& left, const at::Tensor& right) {
  if (is_for_onednn(left, right, right.size(1)) || target.scalar_type() != left.scalar_type()) {
    target.add_(product(left, right));
  } else {
    target.addmm_(left, right);
  }
}

}  // namespace lockstep::parallel
