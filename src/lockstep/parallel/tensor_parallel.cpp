#include "lockstep/parallel/tensor_parallel.h"

#include <vector>

#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/module.h>

#include "lockstep/core/error.h"
#include "lockstep/core/text.h"
#include "lockstep/parallel/layers/dropout.h"
#include "lockstep/parallel/layers/layer.h"
#include "lockstep/parallel/module_parameters.h"
#include "lockstep/parallel/name_pattern.h"
#include "lockstep/parallel/waiting.h"

namespace lockstep::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor summed(const at::Tensor& values, comm::Communicator& group, const char* name) {
  at::Tensor sum;
  wait_for_ranks([&] {
    auto started = start_sum(values, group, {.name = name});
    sum = started.first;
    return std::move(started.second);
  });
  return sum.to(values.device());
}

// Groups are saved as numbers: they outlive backward.

struct ToAllRanks : torch::autograd::Function<ToAllRanks> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& values, comm::Communicator* group) {
    context->saved_data["group"] = reinterpret_cast<std::int64_t>(group);
    return values.view_as(values);
  }
  static variable_list backward(AutogradContext* context, const variable_list& slopes) {
    auto* group = reinterpret_cast<comm::Communicator*>(context->saved_data["group"].toInt());
    return {summed(slopes[0], *group, "slopes of a layer"), {}};
  }
};

struct SumOfRanks : torch::autograd::Function<SumOfRanks> {
  static at::Tensor forward(AutogradContext*, const at::Tensor& shares, comm::Communicator* group) {
    return summed(shares, *group, "values of a layer");
  }
  static variable_list backward(AutogradContext*, const variable_list& slopes) { return {slopes[0], {}}; }
};

}  // namespace

at::Tensor to_all_ranks(const at::Tensor& values, comm::Communicator& group) {
  return ToAllRanks::apply(values, &group);
}

at::Tensor sum_of_ranks(const at::Tensor& shares, comm::Communicator& group) {
  return SumOfRanks::apply(shares, &group);
}

std::pair<at::Tensor, comm::Work> start_sum(const at::Tensor& shares, comm::Communicator& group,
                                            const comm::CallOptions& options) {
  at::Tensor sum = group.empty(shares.sizes(), shares.scalar_type());
  sum.copy_(shares);
  return {sum, group.all_reduce_(sum, comm::ReduceOp::Sum, options)};
}

void split_layers(torch::nn::Module& model, const TensorPlan& plan, comm::Communicator& group) {
  check_registered_once(parameters_of(model));
  for (const auto& [pattern, how] : plan) {
    bool any = false;
    std::vector<std::string> names;
    for (const auto& named : model.named_modules("", /*include_self=*/false)) {
      auto* layer = dynamic_cast<Layer*>(named.value().get());
      if (layer == nullptr) continue;
      names.push_back(named.key());
      if (!fits(pattern, named.key())) continue;
      any = true;
      try {
        layer->split(how, group);
      } catch (Error& error) {
        error.during(fmt::format("splitting '{}' over the {} ranks of the tensor axis, as the plan says of '{}'",
                                 named.key(), group.size(), pattern));
        throw;
      }
    }
    if (!any) {
      fail(Fault::Usage,
           fmt::format("no layer that can be split has a name like '{}', of parallel.tensor_plan; there are {}",
                       pattern, list_some(names, 10)));
    }
  }
  for (const auto& named : model.named_modules("", /*include_self=*/false)) {
    auto* dropout = named.value()->as<DropoutImpl>();
    if (dropout != nullptr && !dropout->is_split() && group.size() > 1) dropout->expect_same_values(named.key(), group);
  }
}

}  // namespace lockstep::parallel
