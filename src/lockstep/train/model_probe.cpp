#include "lockstep/train/model_probe.h"

#include <numeric>
#include <utility>
#include <vector>

#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "lockstep/comm/imagined_group.h"
#include "lockstep/core/error.h"
#include "lockstep/core/memory_of_process.h"
#include "lockstep/models/weights.h"
#include "lockstep/parallel/link_probe.h"
#include "lockstep/train/forward_scope.h"
#include "lockstep/train/memory_limit.h"

namespace lockstep::train {

ModelProbe::ModelProbe(const Config& recipe, ProbedModel model) : recipe_(recipe), model_(std::move(model)) {}

const parallel::ModelCosts& ModelProbe::costs(int tensor) {
  const auto found = known_.find(tensor);
  if (found != known_.end()) return found->second;
  try {
    return known_.emplace(tensor, measure(tensor)).first->second;
  } catch (const c10::Error& error) {
    fail(Fault::Usage, fmt::format("the model cannot be measured, so say how it is laid out by keys of parallel, with "
                                   "costs = \"parameters\" among them: {}",
                                   error.what_without_backtrace()));
  }
}

/// Fields of other lengths than one are none that a model takes.
data::Batch ModelProbe::samples(std::int64_t count) const {
  data::Batch batch;
  batch.global_count = count;
  batch.ids.resize(static_cast<std::size_t>(count));
  std::iota(batch.ids.begin(), batch.ids.end(), 0);
  batch.schema = model_.schema;
  batch.lengths.resize(batch.schema.size());
  for (const auto& field : batch.schema) {
    std::vector<std::int64_t> shape{count};
    if (field.fixed()) shape.insert(shape.end(), field.shape.begin(), field.shape.end());
    batch.tensors.push_back(at::zeros(shape, field.type));
  }
  convert_(batch, model_.precision);
  return batch;
}

parallel::ModelCosts ModelProbe::measure(int tensor) const {
  if (model_.device != "cpu")
    fail(Fault::Usage, fmt::format("links are measured on the CPU, and device = \"{}\"", model_.device));
  const auto ranks = tensor > 1 ? comm::imagine_group(tensor) : nullptr;
  const auto model = models::make_model(
      recipe_.get("model.name", "mlp"), recipe_, "model", model_.data, model_.seed,
      {.tensor = ranks.get(), .tensor_plan = model_.tensor_plan, .sequence = model_.sequence, .filled = false});
  if (model_.drops_inputs) check_made_inputs(*model, recipe_);
  models::freeze(*model, recipe_.get("model.frozen", std::vector<std::string>{}));
  const auto type = model_.precision == Precision::Float64 ? at::kDouble : at::kFloat;
  const auto scope = [this] {
    return std::make_shared<ForwardScope>(model_.precision, c10::DeviceType::CPU, model_.drops_inputs);
  };
  auto costs = parallel::probe_links(
      model->module(), model->chain(),
      [&](std::int64_t count) {
        const at::Tensor input = model_.kind->input(*model, samples(count));
        return input.is_floating_point() ? input.to(type) : input;
      },
      [&](const at::Tensor& outputs) {
        const Autocast autocast(model_.precision, c10::DeviceType::CPU);
        return model_.kind->score(outputs, samples(outputs.size(0)), model->class_split()).loss;
      },
      {.scope = scope, .type = type, .tensor = ranks.get(), .most_bytes = memory_limit(1).bytes});
  give_back_freed_memory();
  return costs;
}

void check_made_inputs(const models::Model& model, const Config& recipe) {
  if (model.has_made_inputs()) return;
  fail(Fault::Usage, fmt::format("recompute = \"selective\" is of inputs of layers that are cheap to make again, and "
                                 "the model '{}' says of none that it is: set \"none\", \"full\" or every how many "
                                 "blocks",
                                 recipe.get("model.name", "mlp")));
}

}  // namespace lockstep::train
