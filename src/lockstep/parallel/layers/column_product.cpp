#include "lockstep/parallel/layers/column_product.h"

#include <functional>
#include <memory>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/parallel/gradient_sink.h"
#include "lockstep/parallel/late_gradients.h"
#include "lockstep/parallel/layers/compute_type.h"
#include "lockstep/parallel/matrix_products.h"
#include "lockstep/parallel/tensor_parallel.h"
#include "lockstep/parallel/time_slices.h"
#include "lockstep/parallel/waiting.h"
#include "lockstep/parallel/weight_gradient.h"

namespace lockstep::parallel {
namespace {

/// What backward of a DirectLinear needs beside tensors.
struct Direct : torch::CustomClassHolder {
  comm::Communicator* ranks = nullptr;  // that have other outputs of the same input; nullptr: there are none
  bool over_time = false;               // each of them has a slice of the input
  std::function<at::Tensor()> again;    // makes the input; none: it is saved
  ComputeType type;
};

struct DirectLinear : torch::autograd::Function<DirectLinear> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                            const c10::intrusive_ptr<Direct>& direct) {
    const at::Tensor values = direct->type.cast(input), factors = direct->type.cast(weight);
    context->save_for_backward({direct->again ? at::Tensor() : values, weight});
    context->saved_data["bias"] = bias.has_value();
    context->saved_data["direct"] = c10::IValue::make_capsule(direct);
    const auto addends = direct->type.cast(bias);
    if (!direct->over_time) return linear_map(values, factors, addends);
    return linear_map(in_time(GatheredSlices(values, *direct->ranks).by_rank()), factors, addends);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& slopes_of_output) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& weight = saved[1];
    const auto capsule = context->saved_data["direct"].toCapsule();
    const auto& direct = static_cast<const Direct&>(*capsule);
    // Cast again, so that no copy of every weight is kept from forward to backward.
    const at::Tensor factors = direct.type.cast(weight);
    comm::Communicator* ranks = direct.ranks;
    const bool over_time = direct.over_time;
    // Also for a gradient that comes late: what it is made of is no smaller, and a norm's weights may be gone then.
    const at::Tensor input = direct.again ? direct.type.cast(direct.again()) : saved[0];
    const at::Tensor& given = slopes_of_output[0];
    // With slices, rows are in the order of ranks, in which slices come and go: here it does not matter.
    const at::Tensor slopes = (over_time ? by_rank(given, *ranks) : given).reshape({-1, weight.size(0)});
    std::shared_ptr<GatheredSlices> slices;
    const bool late = LateGradients::now() != nullptr;
    if (over_time && !late) slices = std::make_shared<GatheredSlices>(input, *ranks);
    at::Tensor of_input, of_bias, share;
    comm::Work summed;
    // The weight's last, for once that is ready new weights may come. Meanwhile the input's travels.
    if (context->needs_input_grad(0) && ranks != nullptr) {
      const comm::CallOptions options{.name = "slopes of a layer", .lane = comm::Lane::Bulk};
      share = ranks->empty({slopes.size(0), weight.size(1)}, slopes.scalar_type());
      product_out(share, slopes, factors);
      if (over_time) {
        of_input = ranks->empty(input.sizes(), slopes.scalar_type());
        summed = ranks->reduce_scatter(of_input, share, comm::ReduceOp::Sum, options);
      } else {
        summed = ranks->all_reduce_(share, comm::ReduceOp::Sum, options);
        of_input = share.view(input.sizes());
      }
    } else if (context->needs_input_grad(0)) {
      of_input = product(slopes, factors).view(input.sizes());
    }
    if (context->saved_data["bias"].toBool() && context->needs_input_grad(2)) of_bias = slopes.sum(0);
    const auto rows = [input, slices, gathers = over_time ? ranks : nullptr, width = weight.size(1)] {
      if (gathers == nullptr) return input.reshape({-1, width});
      return (slices ? slices->by_rank() : GatheredSlices(input, *gathers).by_rank()).reshape({-1, width});
    };
    const at::Tensor of_weight = give_weight_gradient(weight, [slopes, rows](const at::Tensor& target, bool adds) {
      adds ? add_product(target, slopes.t(), rows()) : product_out(target, slopes.t(), rows());
    });
    wait_for_ranks([&] { return std::move(summed); });
    if (of_input.defined()) of_input = of_input.to(slopes.device());
    return {of_input, of_weight, of_bias, {}};
  }
};

}  // namespace

at::Tensor column_product(const MadeInput& made, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                          comm::Communicator* ranks, bool over_time) {
  const at::Tensor& input = made.values;
  const bool trains = at::GradMode::is_enabled() && weight.requires_grad();
  const ComputeType type = ComputeType::of(weight);
  const bool slices = ranks != nullptr && over_time;
  if (trains && gradient_sink(weight) != nullptr && type.fits(input, weight)) {
    const auto how = c10::make_intrusive<Direct>();
    how->ranks = ranks;
    how->over_time = slices;
    how->again = made.again;
    how->type = type;
    return DirectLinear::apply(input, weight, bias, how);
  }
  if (ranks == nullptr) return linear_map(input, weight, bias);
  return linear_map(slices ? gather_slices(input, *ranks) : to_all_ranks(input, *ranks), weight, bias);
}

}  // namespace lockstep::parallel
