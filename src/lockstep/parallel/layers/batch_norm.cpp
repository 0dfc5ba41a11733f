#include "lockstep/parallel/layers/batch_norm.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/var_mean.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/batchnorm.h>

#include "lockstep/core/error.h"
#include "lockstep/core/stopwatch.h"
#include "lockstep/parallel/chain.h"

namespace lockstep::parallel {
namespace {

/// All but the channels.
std::vector<std::int64_t> dims_of(const at::Tensor& input) {
  std::vector<std::int64_t> dims = {0};
  for (std::int64_t dim = 2; dim < input.dim(); ++dim) dims.push_back(dim);
  return dims;
}

/// One number per channel, to be spread over `input`.
at::Tensor spread(const at::Tensor& values, const at::Tensor& input) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
  shape[1] = values.numel();
  return values.to(input.device(), input.scalar_type()).view(shape);
}

struct Moments {
  double count = 0;
  at::Tensor mean, variance;  // [channels], float64
};

/// Over all ranks, the same bits on each: means and squares of ranks, which lose less than sums of squares do,
/// combined one after another.
Moments moments_of(const at::Tensor& input, SyncedBatchNorms& norms) {
  const at::NoGradGuard no_gradients;
  const std::int64_t channels = input.size(1), row = 1 + 2 * channels;
  at::Tensor mine = at::zeros({row}, at::kDouble), all = at::empty({norms.ranks() * row}, at::kDouble);
  if (input.numel() > 0) {
    const auto [variance, mean] = at::var_mean(input, dims_of(input), /*unbiased=*/false);
    mine[0] = static_cast<double>(input.numel() / channels);
    mine.narrow(0, 1, channels).copy_(mean);
    mine.narrow(0, 1 + channels, channels).copy_(variance);
  }
  norms.gather(all, mine);

  Moments result{0, at::zeros({channels}, at::kDouble), at::zeros({channels}, at::kDouble)};
  auto *mean = result.mean.mutable_data_ptr<double>(), *squares = result.variance.mutable_data_ptr<double>();
  for (int rank = 0; rank < norms.ranks(); ++rank) {
    const double* values = all.const_data_ptr<double>() + rank * row;
    const double count = values[0], together = result.count + count;
    if (count == 0) continue;
    for (std::int64_t i = 0; i < channels; ++i) {
      const double difference = values[1 + i] - mean[i];
      mean[i] += difference * (count / together);
      squares[i] += count * values[1 + channels + i] + difference * difference * (result.count * count / together);
    }
    result.count = together;
  }
  result.variance.div_(result.count);
  result.mean = result.mean.to(input.device());
  result.variance = result.variance.to(input.device());
  return result;
}

/// (input - mean) * inverse * weight + bias, with statistics that depend on the inputs of all ranks.
struct SyncedNorm : torch::autograd::Function<SyncedNorm> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& mean,
                            const at::Tensor& inverse, double count, SyncedBatchNorms* norms) {
    context->save_for_backward({input, weight, mean, inverse});
    context->saved_data["count"] = count;
    context->saved_data["norms"] = reinterpret_cast<std::int64_t>(norms);  // outlive backward
    const at::Tensor slope = weight.to(at::kDouble) * inverse;
    return spread(bias.to(at::kDouble) - mean * slope, input).addcmul(input, spread(slope, input));
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& slopes_of_output) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &input = saved[0], &weight = saved[1], &mean = saved[2], &inverse = saved[3];
    const double count = context->saved_data["count"].toDouble();
    auto* norms = reinterpret_cast<SyncedBatchNorms*>(context->saved_data["norms"].toInt());

    const at::Tensor& slopes = slopes_of_output[0];
    const at::Tensor normed = (input - spread(mean, input)) * spread(inverse, input);
    const at::Tensor of_bias = slopes.sum(dims_of(input), false, at::kDouble);
    const at::Tensor of_weight = (slopes * normed).sum(dims_of(input), false, at::kDouble);
    // Of the parameters each rank returns its own part: they are summed as all gradients are.
    at::Tensor sums = at::empty({2, weight.numel()}, at::kDouble);
    sums[0].copy_(of_bias);
    sums[1].copy_(of_weight);
    norms->sum_(sums);
    at::Tensor of_input = slopes - spread(sums[0] / count, input);
    of_input.addcmul_(normed, spread(sums[1] / count, input), -1).mul_(spread(weight.to(at::kDouble) * inverse, input));
    return {of_input, of_weight.to(weight.scalar_type()), of_bias.to(weight.scalar_type()), {}, {}, {}, {}};
  }
};

}  // namespace

BatchNormImpl::BatchNormImpl(std::int64_t channels, double epsilon, double momentum)
    : weight(declare("weight", {channels}, InitialValues::constant(1))),
      bias(declare("bias", {channels}, InitialValues::constant(0))),
      running_mean(declare_buffer("running_mean", {channels}, 0)),
      running_var(declare_buffer("running_var", {channels}, 1)),
      num_batches_tracked(register_buffer("num_batches_tracked", at::zeros({}, at::kLong))),
      epsilon_(epsilon),
      momentum_(momentum) {}

void BatchNormImpl::split_by(const std::string&) {
  for (const at::Tensor& of_channels : {weight, bias, running_mean, running_var}) {
    cut(of_channels, {.dim = 0, .index = ranks()->rank(), .count = ranks()->size()});
  }
}

at::Tensor BatchNormImpl::forward(const at::Tensor& input) {
  if (input.dim() < 2 || input.size(1) != weight.numel()) {
    fail(Fault::Usage, fmt::format("a batch norm of {} channels takes [sample, channel, …], not [{}]", weight.numel(),
                                   fmt::join(input.sizes(), ", ")));
  }
  const bool counts = is_training() && !recomputing();
  if (counts) num_batches_tracked.add_(1);
  if (is_training() && over_ranks_ != nullptr) return synced(input);
  if (is_training() && input.numel() == weight.numel()) {
    fail(Fault::Data,
         "a batch norm has one value per channel, of which there is no variance; use larger batches (with exact mode "
         "more samples per shard), or sync_batch_norm = true");
  }
  return at::batch_norm(input, weight, bias, running_mean, running_var, is_training(), counts ? momentum_ : 0, epsilon_,
                        at::globalContext().userEnabledCuDNN());
}

at::Tensor BatchNormImpl::synced(const at::Tensor& input) {
  const at::Tensor values = input.to(weight.scalar_type());
  const Moments moments = moments_of(values, *over_ranks_);
  if (moments.count < 2) {
    fail(Fault::Data,
         fmt::format("a batch norm has {} values per channel on all ranks together, of which there is no variance; use "
                     "larger batches",
                     moments.count));
  }
  if (!recomputing()) {
    const at::NoGradGuard no_gradients;
    running_mean.lerp_(moments.mean.to(running_mean.scalar_type()), momentum_);
    const at::Tensor unbiased = moments.variance * (moments.count / (moments.count - 1));
    running_var.lerp_(unbiased.to(running_var.scalar_type()), momentum_);
  }
  const at::Tensor inverse = (moments.variance + epsilon_).rsqrt();
  return SyncedNorm::apply(values, weight, bias, moments.mean, inverse, moments.count, over_ranks_)
      .to(input.scalar_type());
}

SyncedBatchNorms::SyncedBatchNorms(torch::nn::Module& model, comm::Communicator& group) {
  for (const auto& named : model.named_modules("", /*include_self=*/false)) {
    const auto& module = named.value();
    if (module->as<torch::nn::BatchNorm1d>() != nullptr || module->as<torch::nn::BatchNorm2d>() != nullptr ||
        module->as<torch::nn::BatchNorm3d>() != nullptr) {
      fail(Fault::Usage, fmt::format("'{}' is a torch::nn::BatchNorm, which knows no other ranks; make it a "
                                     "parallel::BatchNorm to have sync_batch_norm",
                                     named.key()));
    }
    if (module->as<BatchNormImpl>() != nullptr) norms_.push_back(module);
  }
  group_ = group.duplicate();
  for (const auto& norm : norms_) norm->as<BatchNormImpl>()->over_ranks_ = this;
}

SyncedBatchNorms::~SyncedBatchNorms() {
  for (const auto& norm : norms_) norm->as<BatchNormImpl>()->over_ranks_ = nullptr;
}

void SyncedBatchNorms::gather(at::Tensor& all, const at::Tensor& mine) {
  wait_for([&] { return group_->all_gather(all, mine, {}, {.name = "batch norm"}); });
}

void SyncedBatchNorms::sum_(at::Tensor& values) {
  wait_for([&] { return group_->all_reduce_(values, comm::ReduceOp::Sum, {.name = "batch norm"}); });
}

void SyncedBatchNorms::wait_for(const std::function<comm::Work()>& collective) {
  const Stopwatch watch;
  collective().wait();  // a small one is done within the call
  waited_s_ += watch.seconds();
}

}  // namespace lockstep::parallel
