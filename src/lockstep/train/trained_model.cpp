#include "lockstep/train/trained_model.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/nn/module.h>

#include "lockstep/core/error.h"
#include "lockstep/parallel/module_parameters.h"
#include "lockstep/train/precision.h"

namespace lockstep::train {
namespace {

constexpr const char kModel[] = "model";

void copy_(const parallel::Parameters& targets, const parallel::Parameters& weights) {
  for (const auto& target : targets) {
    const auto found = std::find_if(weights.begin(), weights.end(),
                                    [&](const parallel::Parameter& one) { return one.name == target.name; });
    if (found == weights.end() || found->tensor.sizes() != target.tensor.sizes()) {
      fail(Fault::Usage, fmt::format("the checkpoint holds no '{}' of the model's shape: it is of another recipe than "
                                     "that of its run",
                                     target.name));
    }
    target.tensor.copy_(found->tensor);
  }
}

}  // namespace

void note_model_data(nlohmann::json& facts, const models::ModelData& data) {
  facts[kModel] = {{"input", data.input}, {"outputs", data.outputs}};
}

models::ModelData noted_model_data(const nlohmann::json& facts) {
  if (!facts.contains(kModel)) {
    fail(Fault::Usage,
         "the checkpoint does not say what its model takes: it is of an older Lockstep, or of a program; "
         "go on with the run for some steps, which saves it anew");
  }
  const auto& noted = facts.at(kModel);
  return {noted.at("input").get<std::vector<std::int64_t>>(), noted.at("outputs").get<std::int64_t>()};
}

std::unique_ptr<models::Model> trained_model(const Config& recipe, const models::ModelData& data,
                                             const parallel::Parameters& weights) {
  auto model = models::make_model(recipe.get("model.name", "mlp"), recipe, "model", data, /*seed=*/0);
  convert_(model->module(), precision_named(recipe.get("precision", "float32")));
  const at::NoGradGuard no_gradients;
  copy_(parallel::parameters_of(model->module()), weights);
  copy_(parallel::buffers_of(model->module()), weights);
  model->module().eval();
  return model;
}

}  // namespace lockstep::train
