#include "lockstep/models/model.h"

#include <mutex>

#include <ATen/Context.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/parallel/layers/dropout.h"
#include "lockstep/parallel/layers/layer.h"
#include "lockstep/parallel/module_parameters.h"
#include "lockstep/parallel/stages.h"

namespace lockstep::models {
namespace {

parallel::TensorPlan plan_of(const Model& model, const std::string& name, const ModelCut& cut) {
  const int ranks = cut.tensor->size();
  if (cut.sequence && !cut.tensor_plan.empty()) {
    fail(Fault::Usage,
         "parallel.sequence = true takes the model's own plan: leave out parallel.tensor_plan, or parallel.sequence "
         "and write \"column+time\", \"row+time\" and \"time\" into the plan");
  }
  const auto plan = !cut.tensor_plan.empty() ? cut.tensor_plan
                    : cut.sequence           ? model.sequence_plan(ranks)
                                             : model.tensor_plan(ranks);
  if (!plan.empty()) return plan;
  if (cut.sequence) {
    fail(Fault::Usage, fmt::format("the model '{}' does not say how its activations are cut along time over {} ranks: "
                                   "set parallel.sequence = false",
                                   name, ranks));
  }
  fail(Fault::Usage, fmt::format("the model '{}' does not say how its layers are split over {} ranks: set "
                                 "parallel.tensor_plan, or parallel.tensor = 1",
                                 name, ranks));
}

}  // namespace

std::unique_ptr<Model> make_model(const std::string& name, const Config& recipe, const std::string& key,
                                  const ModelData& data, std::uint64_t seed, const ModelCut& cut) {
  auto model = [&] {
    static std::mutex mutex;  // ranks may be threads, and torch has one generator for what layers of its own begin with
    const std::lock_guard lock(mutex);
    at::manual_seed(seed);
    const parallel::DeferredFilling later;
    return ModelRegistry::instance().at("model", name)(recipe, key, data);
  }();
  parallel::name_layers(model->module());
  if (cut.tensor != nullptr && cut.tensor->size() > 1) {
    parallel::split_layers(model->module(), plan_of(*model, name, cut), *cut.tensor);
  }
  for (const auto& parameter : parallel::parameters_of(model->module()))
    model->parameter_names.push_back(parameter.name);
  model->cuts = {0, model->chain().size()};
  if (cut.stages > 1) {
    const int pieces = cut.stages * cut.chunks;
    const auto costs = cut.costs.empty()
                           ? parallel::costs_by_parameters(parallel::parameters_of(model->module()), model->chain())
                           : cut.costs;
    model->cuts = cut.cuts.empty() ? parallel::balanced_cuts(costs, pieces)
                                   : parallel::given_cuts(cut.cuts, pieces, model->chain());
    parallel::keep_links(model->module(), model->chain(), parallel::links_of(model->cuts, cut.stage, cut.stages));
  }
  if (cut.filled) parallel::fill_layers(model->module(), seed);
  return model;
}

void fill_frozen(Model& model, std::uint64_t seed) {
  parallel::fill_layers(model.module(), seed, parallel::Fill::AllButTrained);
}

}  // namespace lockstep::models
