#include "lockstep/train/weight_owner.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <torch/nn/module.h>

#include "lockstep/core/error.h"
#include "lockstep/core/memory_of_process.h"
#include "lockstep/parallel/layers/layer.h"
#include "lockstep/parallel/module_parameters.h"
#include "lockstep/train/mesh_recipe.h"
#include "lockstep/train/model_parts.h"
#include "lockstep/train/trainer_check.h"

namespace lockstep::train {
namespace {

/// Parameters that nobody has filled yet get their first weights slice by slice, so that none is ever there as a whole.
auto first_weights(const torch::nn::Module& model, std::uint64_t seed) {
  struct Beginning {
    parallel::ParameterPart part;
    parallel::InitialValues values;
  };
  std::map<std::string, Beginning> unfilled;
  parallel::for_each_declared(model, [&](const std::string& name, const parallel::Layer::Declared& declared) {
    if (!declared.filled) unfilled.emplace(name, Beginning{declared.part, declared.begins});
  });
  return [unfilled, seed](const std::string& name, const parallel::Window& window, at::Tensor slice) {
    const auto found = unfilled.find(name);
    if (found == unfilled.end()) return false;
    // In float32, as layers are filled before they are converted.
    const at::Tensor values = at::empty(slice.sizes(), at::kFloat);
    parallel::fill_(values, found->second.part.within(window), found->second.values, seed, name);
    slice.copy_(values);
    return true;
  };
}

std::optional<parallel::OffloadOptions> offload_of(const TrainerSettings& settings) {
  if (settings.offload == kOffloadNothing) return std::nullopt;
  return parallel::OffloadOptions{.folder = settings.offload_folder,
                                  .weights = settings.offload == kOffloadAll,
                                  .states = static_cast<int>(settings.optimizer->states().size())};
}

}  // namespace

WeightOwner::WeightOwner(const TrainerSettings& settings, parallel::Mesh& mesh, Task& task, bool fused,
                         c10::Device device)
    : data_(mesh.along(kDataAxis)), task_(task) {
  const int stages = mesh.size(kPipeAxis);
  settings.zero > 0 && !fused ? share_out(settings, stages, device) : replicate(settings, stages);
  give_back_freed_memory();  // the model's own
}

void WeightOwner::replicate(const TrainerSettings& settings, int stages) {
  auto held = parallel::partial_parameters(task_.model());
  held.merge(tied_parameters(task_, stages));
  auto replicated = std::make_unique<parallel::DataParallel>(
      parallel::parameters_of(task_.model()), data_,
      parallel::DataParallelOptions{.sparse = parallel::sparse_parameters_of(task_.model()),
                                    .wire = settings.wire ? settings.wire() : nullptr,
                                    .local = settings.local_steps > 0,
                                    .held = std::move(held)});
  replicated_ = replicated.get();
  engine_ = std::move(replicated);
}

void WeightOwner::share_out(const TrainerSettings& settings, int stages, c10::Device device) {
  auto* chain_task = dynamic_cast<ChainTask*>(&task_);
  if (chain_task == nullptr)
    fail(Fault::Usage, "parallel.zero shares weights out by the links of a model: make the task a ChainTask");
  const int together = ranks_of_copy(settings, data_.size());
  sharers_ = data_.split(data_.rank() / together, data_.rank());
  copies_ = data_.split(data_.rank() % together, data_.rank());
  const auto parameters = parallel::parameters_of(task_.model());
  const auto begun = parallel::trained(parameters);
  auto sharded = std::make_unique<parallel::ShardedParallel>(
      parameters, chain_task->chain(), *sharers_,
      parallel::ShardedOptions{
          .level = settings.zero,
          .replicas = copies_->size() > 1 ? copies_.get() : nullptr,
          .cuts = chain_task->cuts(),
          .unit_bytes = settings.unit_bytes,
          .held = tied_parameters(task_, stages),
          .partial = parallel::partial_parameters(task_.model()),
          .begin = [&begun, fill = first_weights(task_.model(), settings.seed)](
                       std::size_t number, const parallel::Window& window,
                       const at::Tensor& slice) { return fill(begun[number].name, window, slice); },
          .offload = offload_of(settings),
          .device = device});
  sharded_ = sharded.get();
  engine_ = std::move(sharded);
}

TensorParts WeightOwner::parts() const {
  TensorParts parts = parallel::parts_of(task_.model());
  if (sharded_ == nullptr) return parts;
  for (const auto& [name, tensor] : parallel::parameters_of(task_.model())) {
    parts.try_emplace(name, tensor.sizes().vec());
  }
  for (const auto& slice : sharded_->slices()) {
    auto& part = parts.at(slice.name);
    part = part.within(slice.window);
  }
  return parts;
}

void WeightOwner::load(Resumed& resumed) {
  resumed.parts = parts();
  if (sharded_ == nullptr || !resumed.any()) return;
  const at::NoGradGuard no_gradients;
  sharded_->load_weights([&](const parallel::Parameters& shards) { load_into(shards, resumed, ""); });
  engine_->weights_changed();
}

void WeightOwner::note(Checkpoint& checkpoint) const {
  checkpoint.parts = parts();
  auto& tensors = checkpoint.tensors;
  for (const auto& parameter : parallel::parameters_of(task_.model())) {
    if (sharded_ == nullptr || !parameter.tensor.requires_grad()) tensors.push_back(parameter);
  }
  for (const auto& buffer : parallel::buffers_of(task_.model())) tensors.push_back(buffer);
  if (sharded_ == nullptr) return;
  // What is not shared out all have: one of each copy writes it.
  if (sharers_->rank() > 0) tensors.clear();
  for (const auto& slice : sharded_->slices()) {
    tensors.push_back({slice.name, slice.weights});
    if (!slice.weights.is_meta()) continue;
    checkpoint.readers[slice.name] = [this, number = slice.parameter] { return engine_->weight(number); };
  }
}

}  // namespace lockstep::train
