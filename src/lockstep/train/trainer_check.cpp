#include "lockstep/train/trainer_check.h"

#include <cmath>
#include <cstdint>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/rnn.h>

#include "lockstep/core/error.h"
#include "lockstep/parallel/module_parameters.h"

namespace lockstep::train {
namespace {

/// Why new weights cannot be made of gradients as soon as these are summed; "": they can.
std::string why_not_fused(const TrainerSettings& settings, const torch::nn::Module& model) {
  std::string why;
  if (!settings.optimizer->elementwise()) why = "the optimizer looks at whole parameters";
  if (settings.clip_norm > 0 || settings.clip_value > 0) why = "clipping looks at all gradients before the step";
  if (settings.wire) why = "a wire has its own way of summing gradients";
  if (settings.local_steps > 0) why = "with local_steps every rank steps on its own";
  if (!parallel::sparse_parameters_of(model).empty()) why = "sparse gradients are stepped by row";
  if (settings.precision == Precision::Fp16) why = "loss scaling looks at all gradients before the step";
  for (const auto& callback : settings.callbacks) {
    if (callback->judges() || callback->looks_at_gradients())
      why = callback->name() + " looks at all gradients before the step";
  }
  return why;
}

template <class... Layers>
bool is_any(const torch::nn::Module& layer) {
  return ((dynamic_cast<const Layers*>(&layer) != nullptr) || ...);
}

/// Whether it is one of them, with a dropout of its own.
template <class... Layers>
bool drops_within(const torch::nn::Module& layer) {
  const auto drops = []<class Layer>(const Layer* one) { return one != nullptr && one->options.dropout() > 0; };
  return (drops(dynamic_cast<const Layers*>(&layer)) || ...);
}

}  // namespace

bool fuses(const TrainerSettings& settings, const torch::nn::Module& model, const comm::Communicator& group) {
  const std::string why = why_not_fused(settings, model);
  if (!why.empty() && settings.fuse_step.value_or(false)) {
    fail(Fault::Usage, fmt::format("fuse_step = true cannot be: {}; leave fuse_step out", why));
  }
  return why.empty() && settings.fuse_step.value_or(group.size() > 1);
}

void check_exact(const torch::nn::Module& model) {
  for (const auto& named : model.named_modules("", /*include_self=*/false)) {
    const torch::nn::Module& layer = *named.value();
    if (is_any<torch::nn::DropoutImpl, torch::nn::Dropout2dImpl, torch::nn::Dropout3dImpl, torch::nn::AlphaDropoutImpl,
               torch::nn::FeatureAlphaDropoutImpl, torch::nn::RReLUImpl>(layer) ||
        drops_within<torch::nn::LSTMImpl, torch::nn::GRUImpl, torch::nn::RNNImpl, torch::nn::MultiheadAttentionImpl>(
            layer)) {
      fail(Fault::Usage,
           fmt::format("'{}' is a layer of torch::nn that draws numbers, which depend on the rank that draws them: in "
                       "exact mode leave them to a parallel::Dropout",
                       named.key()));
    }
  }
}

void check(const TrainerSettings& settings) {
  if (!settings.optimizer) fail(Fault::Usage, "no optimizer is set");
  const auto& checkpoints = settings.checkpoints;
  const std::tuple<const char*, std::int64_t, std::int64_t> counts[] = {
      {"batch", settings.batch, 1},
      {"accumulate", settings.accumulate, 1},
      {"evaluation_batch", settings.evaluation_batch, 1},
      {"epochs", settings.epochs, 0},
      {"steps", settings.steps, 0},
      {"check_every_steps", settings.check_every_steps, 0},
      {"local_steps", settings.local_steps, 0},
      {"checkpoints.every_steps", checkpoints.every_steps, 0},
      {"checkpoints.keep_last", checkpoints.keep_last, 1},
      {"checkpoints.keep_best", checkpoints.keep_best, 0}};
  for (const auto& [key, value, least] : counts) {
    if (value < least) fail(Fault::Usage, fmt::format("{} = {}: it is from {} on", key, value, least));
  }
  for (const auto& [key, value] :
       {std::pair("optimizer.lr", settings.lr), std::pair("clip_norm", settings.clip_norm),
        std::pair("clip_value", settings.clip_value), std::pair("wall_time_s", settings.wall_time_s)}) {
    if (!(value >= 0 && std::isfinite(value))) {
      fail(Fault::Usage, fmt::format("{} = {}: it is a number from 0 on", key, value));
    }
  }
  if (settings.local_steps > 0 && (settings.exact || settings.wire)) {
    fail(Fault::Usage,
         fmt::format("with local_steps no gradients travel, so there is nothing to {}; set local_steps = 0",
                     settings.exact ? "sum exactly (exact)" : "encode (wire)"));
  }
  if (settings.local_steps > 0 && settings.precision == Precision::Fp16) {
    fail(Fault::Usage, "with local_steps ranks would not agree on the loss scale of fp16; set precision = \"bf16\"");
  }
  if (settings.sync_batch_norm && (settings.exact || settings.local_steps > 0)) {
    fail(Fault::Usage, fmt::format("sync_batch_norm needs all ranks in every layer, and {}; set one of them",
                                   settings.exact ? "with exact = true batch norms take statistics per shard"
                                                  : "with local_steps ranks go on their own"));
  }
  if (settings.exact && settings.device != "cpu") {
    fail(Fault::Usage, "exact mode needs device = \"cpu\": kernels of a GPU add in an order of their own");
  }
  if (settings.exact && settings.wire) {
    fail(Fault::Usage,
         "a wire rounds what ranks send, so the bits would depend on their number: set exact = false or "
         "wire.name = \"none\"");
  }
}

}  // namespace lockstep::train
