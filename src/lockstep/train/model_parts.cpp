#include "lockstep/train/model_parts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <torch/nn/module.h>

#include "lockstep/core/error.h"
#include "lockstep/core/hash.h"
#include "lockstep/core/text.h"
#include "lockstep/parallel/layers/layer.h"
#include "lockstep/parallel/module_parameters.h"
#include "lockstep/parallel/reduce_anywhere.h"
#include "lockstep/parallel/stages.h"
#include "lockstep/train/mesh_recipe.h"

namespace lockstep::train {
namespace {

/// Of all parts, or of all shards of them.
comm::Communicator& ranks_with_others(parallel::Mesh& mesh, const parallel::GradientEngine& engine) {
  if (!engine.shared_out()) return mesh.spanned_by({kTensorAxis, kPipeAxis});
  return mesh.spanned_by({kTensorAxis, kPipeAxis, kDataAxis});
}

bool is_finite(const at::Tensor& values) {
  const at::NoGradGuard no_gradients;
  constexpr double kLargest = std::numeric_limits<double>::infinity();
  return values.numel() == 0 || std::isfinite(values.norm(kLargest).item<double>());
}

std::set<std::string> parameters_used_by(const parallel::Link& link, const torch::nn::Module& model) {
  std::set<std::string> names;
  for (const auto& parameter : parallel::parameters_of(model)) {
    if (parallel::uses(link, parameter.name)) names.insert(parameter.name);
  }
  return names;
}

}  // namespace

std::set<std::string> tied_parameters(Task& task, int stages) {
  auto* chain_task = dynamic_cast<ChainTask*>(&task);
  if (stages == 1 || chain_task == nullptr) return {};
  return parameters_used_by({.name = "tied",
                             .modules = parallel::tied_modules(chain_task->chain(), chain_task->cuts(), stages),
                             .forward = {}},
                            task.model());
}

ModelParts::ModelParts(parallel::Mesh& mesh, Task& task, parallel::GradientEngine& engine, int copies)
    : engine_(engine),
      axes_(mesh.spanned_by({kTensorAxis, kPipeAxis})),
      tensor_(mesh.along(kTensorAxis)),
      parts_(ranks_with_others(mesh, engine)),
      copies_of_shards_(copies) {
  if (cut()) {
    const auto parts = parallel::parts_of(task.model());
    for (const auto& all : {parallel::parameters_of(task.model()), parallel::buffers_of(task.model())}) {
      for (const auto& [name, tensor] : all) {
        const auto part = parts.find(name);
        if (part != parts.end() && !part->second.is_whole()) continue;
        everywhere_.insert(name);
        if (tensor_.rank() > 0) copies_.insert(name);
      }
    }
    partial_ = parallel::partial_parameters(task.model());
    make_ties(task, mesh.along(kPipeAxis));
  }
  for (const auto& [name, tensor] : engine.parameters()) {
    if (!copies_.contains(name)) parameters_ += tensor.numel();
  }
  parameters_ = static_cast<std::int64_t>(summed(static_cast<double>(parameters_), axes_));
}

void ModelParts::make_ties(Task& task, comm::Communicator& stages) {
  auto* chain_task = dynamic_cast<ChainTask*>(&task);
  if (stages.size() == 1 || chain_task == nullptr) return;
  for (const auto& [users, modules] : parallel::ties_of(chain_task->chain(), chain_task->cuts(), stages.size())) {
    const bool here = users.contains(stages.rank());
    auto group = stages.split(here ? 0 : -1, stages.rank());
    if (!here) continue;
    Tie tie{std::move(group), {}};
    for (const auto& name : parameters_used_by({.name = "tied", .modules = modules, .forward = {}}, task.model())) {
      // Of a module in one of these more stages may be users: then it is summed over them, and not here, too.
      if (parallel::users_of(name, chain_task->chain(), chain_task->cuts(), stages.size()) == users)
        tie.weights.insert(name);
    }
    if (tie.stages->rank() > 0) copies_.insert(tie.weights.begin(), tie.weights.end());
    ties_.push_back(std::move(tie));
  }
}

double ModelParts::summed(double mine, comm::Communicator& ranks) {
  if (ranks.size() == 1) return mine;
  const at::Tensor sum = at::full({1}, mine, at::kDouble);
  ranks.all_reduce_(sum, comm::ReduceOp::Sum, {.name = "sum over parts of the model"}).wait();
  return sum.item<double>();
}

void ModelParts::complete_gradients() {
  if (ties_.empty() && partial_.empty()) return;
  const auto held = engine_.held();
  // Once in a step and all at once: they are many, and small.
  std::vector<at::Tensor> shares;
  for (const auto& [name, gradient] : held) {
    if (partial_.contains(name) && gradient.numel() > 0) shares.push_back(gradient);
  }
  if (!shares.empty()) parallel::reduce_anywhere_(shares, comm::ReduceOp::Sum, tensor_, "gradients of slices");
  for (const auto& [stages, weights] : ties_) {
    for (const auto& [name, gradient] : held) {
      if (weights.contains(name))
        parallel::reduce_anywhere_({gradient}, comm::ReduceOp::Sum, *stages, "gradients of tied weights");
    }
  }
  engine_.release();
}

double ModelParts::gradient_norm() const {
  const at::NoGradGuard no_gradients;
  double squares = 0;
  // Not by bucket: which parameters share one may depend on who had samples in the first step.
  for (const auto& [name, gradient] : engine_.gradients()) {
    if (copies_.contains(name)) continue;
    const auto norm = (gradient.is_sparse() ? gradient._values() : gradient).norm().item<double>();
    squares += norm * norm;
  }
  return std::sqrt(summed(squares, parts_) / copies_of_shards_);
}

bool ModelParts::gradients_finite() const {
  const auto& buckets = engine_.buckets().all();
  return on_all_parts(std::all_of(buckets.begin(), buckets.end(),
                                  [](const parallel::Bucket& bucket) { return is_finite(bucket.gradients); }));
}

bool ModelParts::weights_finite() const {
  bool finite = true;
  for (std::size_t number = 0; number < engine_.parameters().size(); ++number) {
    finite = finite && is_finite(engine_.weight(number));
  }
  return on_all_parts(finite);
}

void ModelParts::check_alike(const std::set<std::string>& weights, comm::Communicator& ranks) const {
  Hasher hasher;
  for (const auto& weight : weights) {
    for (const auto& [name, parameter] : engine_.parameters()) {
      if (name != weight) continue;
      const at::Tensor values = parameter.detach().cpu().contiguous();
      hasher.update(values.const_data_ptr(), values.nbytes());
    }
  }
  const auto hashes = ranks.gather_bytes(hasher.hex());
  for (int rank = 1; rank < ranks.size(); ++rank) {
    if (hashes[static_cast<std::size_t>(rank)] == hashes.front()) continue;
    constexpr std::size_t kNamed = 3;
    fail(Fault::Comm,
         fmt::format("weights that ranks {} and {} both have ({}) differ: model, memory or program differs; "
                     "go on from the last checkpoint",
                     ranks.world_rank(0), ranks.world_rank(rank),
                     list_some(std::vector<std::string>(weights.begin(), weights.end()), kNamed)));
  }
}

void ModelParts::check_equal() const {
  // Where a shard begins depends on all that is in its unit, of which ranks have slices that may differ in size.
  if (!engine_.has_whole_weights()) return;
  if (tensor_.size() > 1) check_alike(everywhere_, tensor_);
  for (const auto& tie : ties_) check_alike(tie.weights, *tie.stages);
}

}  // namespace lockstep::train
