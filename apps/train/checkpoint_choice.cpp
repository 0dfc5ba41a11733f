#include "train/checkpoint_choice.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "lockstep/core/error.h"
#include "lockstep/data/streamed_safetensors.h"
#include "lockstep/train/result_so_far.h"

namespace lockstep::apps {
namespace {

using train::RunFolder;
constexpr const char kAverages[] = "ema/";

/// Types and shapes of weights and buffers.
parallel::Parameters outlines_of(const train::SavedCheckpoint& checkpoint, const CheckpointChoice& choice) {
  const auto& names = checkpoint.tensors.names();
  const auto is_average = [](const std::string& name) { return name.starts_with(kAverages); };
  if (choice.averaged && std::none_of(names.begin(), names.end(), is_average))
    fail(Fault::Usage, "the run has kept no averages of its weights; [callbacks.ema] in its recipe makes it do so");
  parallel::Parameters weights;
  // Beside the weights, whose names hold no slash, a checkpoint has what others remember, as "optimizer/…".
  for (const auto& name : names) {
    if (name.find('/') == std::string::npos) weights.push_back({name, checkpoint.tensors.outline(name)});
  }
  return weights;
}

/// Averaged if that is chosen; buffers are not averaged.
at::Tensor values_of(const parallel::Parameter& weight, const train::SavedTensors& all, bool averaged) {
  const auto& [name, outline] = weight;
  if (averaged) {
    at::Tensor values = at::empty(outline.sizes(), outline.scalar_type());
    if (all.read_into(values, kAverages + name, parallel::ParameterPart(outline.sizes().vec()))) return values;
  }
  return all.read(name);
}

/// Also of a validation that came after the last checkpoint.
std::vector<train::Evaluation> evaluations_of(const RunFolder& run) {
  std::vector<train::Evaluation> all;
  const auto result = run.about().value("result", nlohmann::json::object());
  for (const auto& noted : result.value("evaluations", nlohmann::json::array())) {
    train::Evaluation evaluation;
    evaluation.of = noted.at("of").get<std::string>();
    evaluation.step = noted.at("step").get<std::int64_t>();
    for (const auto& [name, value] : noted.at("figures").items()) {
      if (value.is_number()) evaluation.figures.emplace_back(name, value.get<double>());
    }
    all.push_back(std::move(evaluation));
  }
  return all;
}

}  // namespace

train::SavedCheckpoint chosen_checkpoint(const RunFolder& run, const CheckpointChoice& choice) {
  const train::CheckpointFolder folder(run.checkpoints());
  if (choice.best) {
    const std::string figure = run.recipe().get("checkpoints.best_by", train::CheckpointSettings().best_by);
    const auto step = train::best_step(folder, figure, evaluations_of(run));
    if (step) return folder.read(*step);
    fail(Fault::Usage, fmt::format("no checkpoint in {} was validated by '{}'; set data.validation in the recipe, or "
                                   "leave out --best for the newest",
                                   run.checkpoints(), figure));
  }
  if (choice.step) {
    const auto steps = folder.steps();
    if (std::binary_search(steps.begin(), steps.end(), *choice.step)) return folder.read(*choice.step);
    fail(Fault::Usage,
         fmt::format("there is no checkpoint of step {} in {}; there are those of {}", *choice.step, run.checkpoints(),
                     steps.empty() ? "none" : fmt::format("{}", fmt::join(steps, ", "))));
  }
  auto newest = folder.newest();
  if (!newest) fail(Fault::Usage, fmt::format("{} holds no checkpoint that is whole", run.checkpoints()));
  return std::move(*newest);
}

parallel::Parameters weights_of(const train::SavedCheckpoint& checkpoint, const CheckpointChoice& choice) {
  auto weights = outlines_of(checkpoint, choice);
  for (auto& weight : weights) weight.tensor = values_of(weight, checkpoint.tensors, choice.averaged);
  return weights;
}

std::size_t export_weights(const train::SavedCheckpoint& checkpoint, const CheckpointChoice& choice,
                           const std::string& path) {
  const auto weights = outlines_of(checkpoint, choice);
  data::stream_safetensors(
      path, weights,
      [&](const parallel::Parameter& weight) { return values_of(weight, checkpoint.tensors, choice.averaged); },
      {{"format", "pt"}});
  return weights.size();
}

}  // namespace lockstep::apps
