#include "lockstep/train/trainer_check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/instancenorm.h>
#include <torch/nn/modules/rnn.h>

#include "lockstep/comm/tree.h"
#include "lockstep/core/error.h"
#include "lockstep/parallel/module_parameters.h"
#include "lockstep/parallel/pipeline_schedule.h"
#include "lockstep/train/mesh_recipe.h"

namespace lockstep::train {
namespace {

/// Why new weights cannot be made of gradients as soon as these are summed; "": they can.
std::string why_not_fused(const TrainerSettings& settings, bool sparse, bool cut, int data_ranks) {
  std::string why;
  if (!settings.optimizer->elementwise()) why = "the optimizer looks at whole parameters";
  if (settings.clip_norm > 0 || settings.clip_value > 0) why = "clipping looks at all gradients before the step";
  if (cut) why = "of a model that is cut over ranks, stages know the loss at different times";
  if (settings.zero > 1) why = fmt::format("parallel.zero = {} steps gradients that are shared out", settings.zero);
  if (settings.zero == 1 && settings.zero_ranks > 0 && settings.zero_ranks != data_ranks)
    why = "parallel.zero_ranks shares states out over a part of the ranks";
  if (settings.offload != kOffloadNothing) why = "parallel.offload steps what it reads from a file piece by piece";
  if (settings.wire) why = "a wire has its own way of summing gradients";
  if (settings.local_steps > 0) why = "with local_steps every rank steps on its own";
  if (sparse) why = "sparse gradients are stepped by row";
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

/// Whether it is one of them, and keeps running statistics.
template <class... Layers>
bool keeps_statistics(const torch::nn::Module& layer) {
  const auto keeps = []<class Layer>(const Layer* one) { return one != nullptr && one->options.track_running_stats(); };
  return (keeps(dynamic_cast<const Layers*>(&layer)) || ...);
}

void check_offload(const TrainerSettings& settings) {
  const std::string& offload = settings.offload;
  if (offload == kOffloadNothing) return;
  if (offload != kOffloadOptimizer && offload != kOffloadAll) {
    fail(Fault::Usage, fmt::format("parallel.offload = \"{}\": it is \"{}\", \"{}\" or \"{}\"", offload,
                                   kOffloadNothing, kOffloadOptimizer, kOffloadAll));
  }
  const int least = least_zero(offload);
  if (settings.zero >= least) return;
  fail(Fault::Usage,
       fmt::format("parallel.offload = \"{}\" needs parallel.zero = {}{}, also on one rank, and it is {}: set "
                   "parallel.zero = {}{}",
                   offload, least, least < 3 ? " or more" : "", settings.zero, least,
                   settings.zero > 0 ? ", or parallel.offload = \"optimizer\"" : ""));
}

/// The first layer of torch::nn that draws from torch's generator; "": there is none.
std::string drawing_layer(const torch::nn::Module& model) {
  for (const auto& named : model.named_modules("", /*include_self=*/false)) {
    const torch::nn::Module& layer = *named.value();
    if (is_any<torch::nn::DropoutImpl, torch::nn::Dropout2dImpl, torch::nn::Dropout3dImpl, torch::nn::AlphaDropoutImpl,
               torch::nn::FeatureAlphaDropoutImpl, torch::nn::RReLUImpl>(layer) ||
        drops_within<torch::nn::LSTMImpl, torch::nn::GRUImpl, torch::nn::RNNImpl, torch::nn::MultiheadAttentionImpl>(
            layer)) {
      return named.key();
    }
  }
  return "";
}

}  // namespace

bool fuses(const TrainerSettings& settings, bool sparse, bool cut, int data_ranks) {
  const std::string why = why_not_fused(settings, sparse, cut, data_ranks);
  if (!why.empty() && settings.fuse_step.value_or(false)) {
    fail(Fault::Usage, fmt::format("fuse_step = true cannot be: {}; leave fuse_step out", why));
  }
  return why.empty() && settings.fuse_step.value_or(data_ranks > 1);
}

bool fuses(const TrainerSettings& settings, const torch::nn::Module& model, const comm::Communicator& group) {
  const bool cut = settings.mesh && settings.mesh->size(kDataAxis) < settings.mesh->world().size();
  return fuses(settings, !parallel::sparse_parameters_of(model).empty(), cut, group.size());
}

std::string why_not_shared_out(const TrainerSettings& settings) {
  std::string what;
  if (settings.exact) what = "exact = true, whose sums go over shards of samples";
  if (settings.local_steps > 0) what = "local_steps, with which ranks step on their own";
  if (settings.wire) what = "a wire, which has its own way of summing gradients";
  if (!settings.optimizer->elementwise()) what = "this optimizer, which looks at whole parameters";
  for (const auto& callback : settings.callbacks) {
    if (callback->keeps_weights()) what = fmt::format("callbacks.{}, which keeps weights of its own", callback->name());
  }
  return what;
}

bool shares_out(const TrainerSettings& settings, bool fused, const std::string& sparse) {
  if (settings.zero == 0 || fused) return false;
  const std::string what = why_not_shared_out(settings);
  if (!what.empty()) {
    fail(Fault::Usage,
         fmt::format("parallel.zero = {} does not go with {}: leave out one of them", settings.zero, what));
  }
  if (sparse.empty()) return true;
  fail(Fault::Usage, fmt::format("parallel.zero = {} sums whole gradients, and {} has sparse ones: set "
                                 "model.sparse_embedding = false or parallel.zero = 0",
                                 settings.zero, sparse));
}

bool shares_out(const TrainerSettings& settings, bool fused, const torch::nn::Module& model) {
  const auto sparse = parallel::sparse_parameters_of(model);
  return shares_out(settings, fused, sparse.empty() ? "" : fmt::format("'{}'", *sparse.begin()));
}

int ranks_of_copy(const TrainerSettings& settings, int data_ranks) {
  const int together = settings.zero_ranks > 0 ? settings.zero_ranks : data_ranks;
  if (data_ranks % together == 0) return together;
  fail(Fault::Usage, fmt::format("parallel.zero_ranks = {} does not divide the {} ranks of the data axis: set it to a "
                                 "divisor of {}",
                                 together, data_ranks, data_ranks));
}

int least_zero(const std::string& offload) { return offload == kOffloadNothing ? 0 : offload == kOffloadAll ? 3 : 1; }

void check_schedule(const Schedule& schedule, const TrainingData& data) {
  if (!schedule.needs_validation() || data.validation) return;
  fail(Fault::Usage, fmt::format("schedule.name = \"{}\" follows the loss of validations, and there are none: set "
                                 "data.validation",
                                 schedule.name));
}

void check_exact(const torch::nn::Module& model) {
  const std::string layer = drawing_layer(model);
  if (layer.empty()) return;
  fail(Fault::Usage,
       fmt::format("'{}' is a layer of torch::nn that draws numbers, which depend on the rank that draws them: in "
                   "exact mode leave them to a parallel::Dropout",
                   layer));
}

void check_recomputed(const torch::nn::Module& model, const parallel::Chain& chain,
                      const std::function<bool(std::size_t link)>& recomputes) {
  for (const auto& named : model.named_modules("", /*include_self=*/false)) {
    if (!keeps_statistics<torch::nn::BatchNorm1dImpl, torch::nn::BatchNorm2dImpl, torch::nn::BatchNorm3dImpl,
                          torch::nn::InstanceNorm1dImpl, torch::nn::InstanceNorm2dImpl, torch::nn::InstanceNorm3dImpl>(
            *named.value()))
      continue;
    for (std::size_t link = 0; link < chain.size(); ++link) {
      if (!recomputes(link) || !parallel::uses(chain[link], named.key() + ".running_mean")) continue;
      fail(Fault::Usage,
           fmt::format(
               "'{}' is a norm of torch::nn in '{}', which recompute computes twice, and would count its samples "
               "as often in running statistics: make it a parallel::BatchNorm, or set recompute = \"none\"",
               named.key(), chain[link].name));
    }
  }
}

std::string why_not_cut(const TrainerSettings& settings) {
  if (settings.local_steps > 0) return "local_steps, with which ranks step on their own";
  return settings.exact ? "exact = true, whose sums go over samples alone" : "";
}

void check_cut(const TrainerSettings& settings) {
  const std::string what = why_not_cut(settings);
  if (!what.empty())
    fail(Fault::Usage, fmt::format("a model that is cut over ranks does not go with {}: leave out one of them", what));
}

void check_split(const TrainerSettings& settings) {
  if (settings.optimizer->elementwise()) return;
  fail(Fault::Usage,
       "this optimizer looks at whole parameters, and with parallel.tensor a rank has parts of them: "
       "set another one, such as adamw, or parallel.tensor = 1");
}

void check_split(const torch::nn::Module& model) {
  const std::string layer = drawing_layer(model);
  if (layer.empty()) return;
  fail(Fault::Usage,
       fmt::format("'{}' is a layer of torch::nn that draws numbers, of which ranks with unlike parts of a layer draw "
                   "unlike many: with parallel.tensor leave them to a parallel::Dropout",
                   layer));
}

void check(const TrainerSettings& settings, const Layout& layout, bool sparse) {
  check(settings);
  const bool cut = layout.data < layout.ranks();
  if (cut) check_cut(settings);
  if (layout.tensor > 1) check_split(settings);
  // Its file says what it takes.
  if (layout.pipe > 1)
    (void)parallel::make_pipeline_schedule(layout.schedule, layout.pipe, static_cast<int>(layout.micro_batches),
                                           layout.chunks);
  if (settings.exact) (void)comm::shards_of_rank(settings.shards, layout.data, 0);
  if (shares_out(settings, fuses(settings, sparse, cut, layout.data), sparse ? "the model" : ""))
    (void)ranks_of_copy(settings, layout.data);
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
      {"recompute", settings.recompute_every, 0},
      {"parallel.zero", settings.zero, 0},
      {"parallel.zero_ranks", settings.zero_ranks, 0},
      {"parallel.unit_bytes", settings.unit_bytes, 0},
      {"parallel.chunks", settings.pipeline_chunks, 1},
      {"checkpoints.every_steps", checkpoints.every_steps, 0},
      {"checkpoints.keep_last", checkpoints.keep_last, 1},
      {"checkpoints.keep_best", checkpoints.keep_best, 0},
      {"checkpoints.staging_bytes", checkpoints.staging_bytes, 0}};
  for (const auto& [key, value, least] : counts) {
    if (value < least) fail(Fault::Usage, fmt::format("{} = {}: it is from {} on", key, value, least));
  }
  if (settings.zero > 3) fail(Fault::Usage, fmt::format("parallel.zero = {}: it is from 0 to 3", settings.zero));
  check_offload(settings);
  // What is foretold of so many samples is still a number of bytes.
  constexpr std::int64_t kMostSamples = std::int64_t{1} << 31;
  if (settings.batch > kMostSamples)
    fail(Fault::Usage, fmt::format("batch = {}: it is from 1 to {}", settings.batch, kMostSamples));
  // A piece without samples is passed over; of a schedule each takes memory.
  constexpr std::int64_t kMostPieces = 1'000'000;
  if (const std::int64_t most = std::min(settings.batch, kMostPieces); settings.accumulate > most) {
    fail(Fault::Usage,
         fmt::format("accumulate = {}: it is from 1 to {}, {}", settings.accumulate, most,
                     most == kMostPieces
                         ? "and larger pieces do as well"
                         : fmt::format("as a piece of the {} samples of a batch has one at least", most)));
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
