#include "lockstep/parallel/time_slices.h"

#include <utility>
#include <vector>

#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/core/error.h"
#include "lockstep/parallel/waiting.h"

namespace lockstep::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void check_dims(const at::Tensor& values) {
  if (values.dim() >= 3) return;
  fail(Fault::Usage, fmt::format("values of {} dims are cut along time, which is the second of [batch, time, …]: "
                                 "split this layer without \"+time\" in parallel.tensor_plan",
                                 values.dim()));
}

at::Tensor gathered(const at::Tensor& slice, comm::Communicator& group) {
  return in_time(GatheredSlices(slice, group).by_rank());
}

at::Tensor summed(const at::Tensor& shares, comm::Communicator& group, const char* name) {
  check_dims(shares);
  const at::Tensor parts = by_rank(shares, group);
  at::Tensor staged = group.empty(parts.sizes(), parts.scalar_type());
  staged.copy_(parts);
  const at::Tensor sum = group.empty(parts.sizes().slice(1), parts.scalar_type());
  wait_for_ranks([&] { return group.reduce_scatter(sum, staged, comm::ReduceOp::Sum, {.name = name}); });
  return sum.to(shares.device());
}

// Groups are saved as numbers: they outlive backward.

struct GatherSlices : torch::autograd::Function<GatherSlices> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& slice, comm::Communicator* group) {
    context->saved_data["group"] = reinterpret_cast<std::int64_t>(group);
    return gathered(slice, *group);
  }
  static variable_list backward(AutogradContext* context, const variable_list& slopes) {
    auto* group = reinterpret_cast<comm::Communicator*>(context->saved_data["group"].toInt());
    return {summed(slopes[0], *group, "slopes of a layer"), {}};
  }
};

struct SumToSlices : torch::autograd::Function<SumToSlices> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& shares, comm::Communicator* group) {
    context->saved_data["group"] = reinterpret_cast<std::int64_t>(group);
    return summed(shares, *group, "values of a layer");
  }
  static variable_list backward(AutogradContext* context, const variable_list& slopes) {
    auto* group = reinterpret_cast<comm::Communicator*>(context->saved_data["group"].toInt());
    return {gathered(slopes[0], *group), {}};
  }
};

}  // namespace

TimeSlice time_slice(std::int64_t time, const comm::Communicator& group) {
  if (time % group.size() != 0) {
    fail(Fault::Usage, fmt::format("the {0} ranks of the tensor axis do not divide the {1} positions of a sample, "
                                   "which parallel.sequence cuts along time: make them a multiple of {0} (a window of "
                                   "tokens has one more), or set parallel.sequence = false",
                                   group.size(), time));
  }
  const std::int64_t count = time / group.size();
  return {group.rank() * count, count};
}

at::Tensor by_rank(const at::Tensor& values, const comm::Communicator& group) {
  return values.unflatten(1, {group.size(), time_slice(values.size(1), group).count}).transpose(0, 1);
}

at::Tensor in_time(const at::Tensor& values) { return values.transpose(0, 1).flatten(1, 2); }

GatheredSlices::GatheredSlices(const at::Tensor& slice, comm::Communicator& group) : device_(slice.device()) {
  check_dims(slice);
  std::vector<std::int64_t> sizes{group.size()};
  sizes.insert(sizes.end(), slice.sizes().begin(), slice.sizes().end());
  all_ = group.empty(sizes, slice.scalar_type());
  work_ = group.all_gather(all_, slice.cpu().contiguous(), {}, {.name = "slices of time", .lane = comm::Lane::Bulk});
}

at::Tensor GatheredSlices::by_rank() {
  wait_for_ranks([this] { return std::move(work_); });
  return all_.to(device_);
}

at::Tensor gather_slices(const at::Tensor& slice, comm::Communicator& group) {
  return GatherSlices::apply(slice, &group);
}

at::Tensor sum_to_slices(const at::Tensor& shares, comm::Communicator& group) {
  return SumToSlices::apply(shares, &group);
}

}  // namespace lockstep::parallel
