#include "lockstep/train/recipe.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/core/error.h"
#include "lockstep/data/open.h"
#include "lockstep/data/split.h"
#include "lockstep/data/transform.h"
#include "lockstep/data/transformed.h"
#include "lockstep/data/windows.h"
#include "lockstep/models/weights.h"
#include "lockstep/parallel/checked_number.h"
#include "lockstep/parallel/module_parameters.h"
#include "lockstep/parallel/name_pattern.h"
#include "lockstep/train/device.h"
#include "lockstep/train/instructions.h"
#include "lockstep/train/layout_agreement.h"
#include "lockstep/train/mesh_recipe.h"
#include "lockstep/train/stage_shares.h"
#include "lockstep/train/trainer_check.h"

namespace lockstep::train {
namespace {

/// The task and the model that a recipe names.
class RecipeTask final : public ChainTask {
 public:
  RecipeTask(std::shared_ptr<TaskKind> kind, std::unique_ptr<models::Model> model, std::int64_t classes)
      : kind_(std::move(kind)), model_(std::move(model)), classes_(classes) {}
  torch::nn::Module& model() override { return model_->module(); }
  const parallel::Chain& chain() override { return model_->chain(); }
  std::vector<std::size_t> cuts() override { return model_->cuts; }
  parallel::ClassSplit class_split() override { return model_->class_split(); }
  at::Tensor input(const data::Batch& batch) override { return kind_->input(*model_, batch); }
  Score score_of(const at::Tensor& outputs, const data::Batch& batch) override {
    const auto split = model_->class_split();
    if (split.group == nullptr && outputs.size(-1) != classes_) {
      fail(Fault::Usage, fmt::format("the model gives scores of {} of {} classes: parallel.tensor_plan splits its last "
                                     "layer, which this model does not know of; leave that out of the plan",
                                     outputs.size(-1), classes_));
    }
    return kind_->score(outputs, batch, split);
  }
  void check(const data::Batch& batch) const override { kind_->check(batch); }

 private:
  std::shared_ptr<TaskKind> kind_;
  std::unique_ptr<models::Model> model_;
  std::int64_t classes_;
};

TrainingData make_data(const Config& recipe) {
  data::OpenOptions options;
  options.window = recipe.get("data.window", options.window);
  options.stride = recipe.get("data.stride", options.stride);
  options.token_type = recipe.get("data.token_type", options.token_type);
  const auto steps = recipe.get("data.prepare", std::vector<std::string>{});
  const std::int64_t packed = recipe.get("data.pack_window", 0);
  const auto open = [&](const std::string& key) -> data::DatasetPtr {
    const std::string source = recipe.get("data." + key, "");
    if (source.empty()) return nullptr;
    auto set = data::open(source, options);
    if (!steps.empty()) set = data::transformed(std::move(set), steps);
    return packed > 0 ? data::packed_windows(std::move(set), {.length = packed, .full = true}) : set;
  };
  TrainingData result;
  result.train = open("train");
  if (!result.train)
    fail(Fault::Usage, "the recipe names no data: set data.train to a file, a pattern or a built-in set");
  result.validation = open("validation");
  if (const double share = parallel::share_below_one(recipe, "data.validation_share", 0); share > 0) {
    if (result.validation) fail(Fault::Usage, "data.validation_share is of data.train: leave out data.validation");
    const auto parts = data::split(result.train->size(), {.shares = {1 - share, share},
                                                          .seed = static_cast<std::uint64_t>(recipe.get("seed", 0))});
    for (std::size_t part : {0, 1}) {
      if (!parts[part].empty()) continue;
      fail(Fault::Usage, fmt::format("data.validation_share = {} of {} samples leaves none to {}", share,
                                     result.train->size(), part == 0 ? "train on" : "it"));
    }
    result.validation = data::subset(result.train, parts[1]);
    result.train = data::subset(result.train, parts[0]);
  }
  result.test = open("test");
  result.order = recipe.get("data.order", "shuffle");
  result.transforms = recipe.get("data.transforms", std::vector<std::string>{});
  result.evaluation_transforms = recipe.get("data.evaluation_transforms",
                                            data::Pipeline(result.train->schema(), result.transforms).without_chance());
  return result;
}

/// The samples of each class, for an order that sees all of them equally often. Reads all labels.
std::vector<data::SampleGroup> classes_of(const data::Dataset& set, const std::string& target) {
  std::map<std::int64_t, data::SampleGroup> classes;
  const auto labels = data::labels_of(set, target);
  for (std::size_t sample = 0; sample < labels.size(); ++sample) {
    classes[labels[sample]].samples.push_back(static_cast<std::int64_t>(sample));
  }
  std::vector<data::SampleGroup> groups;
  for (auto& [label, group] : classes) groups.push_back(std::move(group));
  return groups;
}

/// How the learning rate follows the number of ranks, when the batch does.
double rate_scale(const Config& recipe, int ranks) {
  const std::string scale = recipe.get("scale_lr", "none");
  if (scale == "none") return 1;
  if (scale != "linear" && scale != "sqrt") {
    fail(Fault::Usage, fmt::format("scale_lr = \"{}\": it is \"none\", \"linear\" or \"sqrt\"", scale));
  }
  if (recipe.get("batch_per_rank", 0) == 0) {
    fail(Fault::Usage, fmt::format("scale_lr = \"{}\" follows a batch that grows with the ranks, and batch is of all "
                                   "ranks together: set batch_per_rank instead of it",
                                   scale));
  }
  return scale == "linear" ? ranks : std::sqrt(ranks);
}

/// Of a step, on all ranks together.
std::int64_t batch_of(const Config& recipe, std::int64_t fallback, int ranks) {
  if (!recipe.has("batch_per_rank")) return recipe.get("batch", fallback);
  const std::int64_t of_rank = recipe.get("batch_per_rank", 0), given = recipe.get("batch", 0);
  if (of_rank == 0 && given != 0) return given;
  if (given != 0) {
    fail(Fault::Usage, "batch is of all ranks together, batch_per_rank of each: set one, the other to 0");
  }
  if (of_rank < 1) fail(Fault::Usage, fmt::format("batch_per_rank = {}: it is from 1 on", of_rank));
  std::int64_t of_all = 0;
  if (__builtin_mul_overflow(of_rank, static_cast<std::int64_t>(ranks), &of_all)) {
    fail(Fault::Usage, fmt::format("batch_per_rank = {}: it is too large for {} ranks", of_rank, ranks));
  }
  return of_all;
}

int shards_of(const Config& recipe, int fallback) {
  constexpr std::int64_t kMost = 1 << 16;
  const std::int64_t shards = recipe.get("shards", fallback);
  if (shards < 1 || shards > kMost) fail(Fault::Usage, fmt::format("shards = {}: it is from 1 to {}", shards, kMost));
  return static_cast<int>(shards);
}

void set_recompute(const Config& recipe, TrainerSettings& settings) {
  const std::string key = "recompute";
  if (!recipe.holds_text(key)) {
    const std::int64_t every = recipe.get(key, 0);
    if (every < 0)
      fail(Fault::Usage, fmt::format("recompute = {}: one of how many blocks is computed again, from 1 on", every));
    settings.recompute_every = every;
    return;
  }
  const std::string what = recipe.get(key, "none");
  if (what != "none" && what != "full" && what != "selective") {
    fail(Fault::Usage, fmt::format("recompute = \"{}\": it is \"none\", \"full\", \"selective\", or one of how many "
                                   "blocks is computed again, such as 2",
                                   what));
  }
  settings.recompute_every = what == "full" ? 1 : 0;
  settings.recompute_inputs = what == "selective";
}

/// The recipe's are those of one rank, when the batch and the rate follow the number of ranks.
std::int64_t steps_of(const Config& recipe, int ranks) {
  const std::int64_t steps = recipe.get("steps", 0);
  if (recipe.get("scale_lr", "none") == "none" || steps < 0) return steps;
  return steps / ranks + (steps % ranks != 0 ? 1 : 0);
}

std::vector<parallel::ParameterGroup> make_groups(const Config& recipe) {
  const double decay = parallel::not_negative(recipe, "optimizer.weight_decay", 0);
  std::vector<parallel::ParameterGroup> groups = {{.patterns = {}, .weight_decay = decay}};
  const auto no_decay = recipe.get("optimizer.no_decay", std::vector<std::string>{});
  if (!no_decay.empty()) groups.push_back({.patterns = no_decay, .weight_decay = 0});
  for (const auto& name : recipe.keys("optimizer.groups")) {
    const std::string key = "optimizer.groups." + name;
    const auto names = recipe.get(key + ".names", std::vector<std::string>{});
    if (names.empty()) {
      fail(Fault::Usage, fmt::format("{0} does not say which parameters it is of: set {0}.names = [\"*.bias\"]", key));
    }
    auto& group = groups.emplace_back(parallel::ParameterGroup{.patterns = names});
    if (recipe.has(key + ".lr_factor")) group.lr_factor = parallel::not_negative(recipe, key + ".lr_factor", 1);
    if (recipe.has(key + ".weight_decay"))
      group.weight_decay = parallel::not_negative(recipe, key + ".weight_decay", 0);
  }
  return groups;
}

/// A pattern that fits frozen parameters alone, or those of other stages, has nothing to say, and is no mistake.
void leave_out_others(std::vector<parallel::ParameterGroup>& groups, models::Model& model) {
  const auto here = parallel::parameters_of(model.module());
  const auto& all = model.parameter_names;
  for (auto& group : groups) {
    std::erase_if(group.patterns, [&](const std::string& pattern) {
      const bool trained = std::any_of(here.begin(), here.end(), [&](const auto& parameter) {
        return parameter.tensor.requires_grad() && parallel::fits(pattern, parameter.name);
      });
      return !trained &&
             std::any_of(all.begin(), all.end(), [&](const auto& name) { return parallel::fits(pattern, name); });
    });
  }
}

std::unique_ptr<models::Model> make_model(const Config& recipe, const models::ModelData& data, std::uint64_t seed,
                                          const models::ModelCut& cut) {
  const std::string name = recipe.get("model.name", "mlp");
  auto model = [&] {
    try {
      return models::make_model(name, recipe, "model", data, seed, cut);
    } catch (const c10::Error& error) {
      if (std::string_view(error.what()).find("allocate memory") == std::string_view::npos) throw;
      fail(Fault::Usage,
           fmt::format("there is not enough memory for the {} that [model] describes: make it smaller", name));
    }
  }();
  const std::string weights = recipe.get("model.weights", "");
  const auto except = recipe.get("model.weights_except", std::vector<std::string>{});
  if (weights.empty() && !except.empty()) {
    fail(Fault::Usage, "model.weights_except is of the file of weights: set model.weights to one");
  }
  if (!weights.empty()) models::load_weights(*model, weights, except);
  models::freeze(*model, recipe.get("model.frozen", std::vector<std::string>{}));
  models::fill_frozen(*model, seed);
  return model;
}

TrainerSettings make_settings(const Config& recipe, int data_ranks) {
  TrainerSettings settings;
  settings.epochs = recipe.get("epochs", settings.epochs);
  settings.steps = steps_of(recipe, data_ranks);
  settings.seed = static_cast<std::uint64_t>(recipe.get("seed", 0));
  settings.exact = recipe.get("exact", settings.exact);
  settings.shards = shards_of(recipe, settings.shards);
  const std::string instructions = recipe.get("instructions", "best");
  if (settings.exact && instructions != "best") check_instructions(instructions);  // before the first of them
  settings.device = recipe.get("device", settings.device);
  (void)device_named(settings.device, 0);  // before torch is used, which asks for GPUs once and for all
  if (recipe.has("fuse_step")) settings.fuse_step = recipe.get("fuse_step", true);
  settings.accumulate = recipe.get("accumulate", settings.accumulate);
  settings.local_steps = recipe.get("local_steps", settings.local_steps);
  settings.average_states = recipe.get("average_states", settings.average_states);
  settings.sync_batch_norm = recipe.get("sync_batch_norm", settings.sync_batch_norm);
  set_recompute(recipe, settings);
  settings.clip_norm = recipe.get("clip_norm", settings.clip_norm);
  settings.clip_value = recipe.get("clip_value", settings.clip_value);
  settings.evaluation_batch = recipe.get("evaluation_batch", settings.evaluation_batch);
  settings.precision = precision_named(recipe.get("precision", "float32"));
  if (settings.precision != Precision::Fp16 && recipe.has("loss_scale")) {
    fail(Fault::Usage, "loss_scale is of precision = \"fp16\": no other needs it");
  }
  settings.loss_scale.start = recipe.get("loss_scale.start", settings.loss_scale.start);
  settings.loss_scale.grow_after = recipe.get("loss_scale.grow_after", settings.loss_scale.grow_after);
  settings.batch = batch_of(recipe, settings.batch, data_ranks);
  settings.lr = parallel::not_negative(recipe, "optimizer.lr", settings.lr) * rate_scale(recipe, data_ranks);
  settings.optimizer = parallel::make_optimizer(recipe.get("optimizer.name", "sgd"), recipe, "optimizer");
  settings.groups = make_groups(recipe);
  auto& checkpoints = settings.checkpoints;
  checkpoints.every_steps = recipe.get("checkpoints.every_steps", checkpoints.every_steps);
  checkpoints.keep_last = recipe.get("checkpoints.keep_last", checkpoints.keep_last);
  checkpoints.keep_best = recipe.get("checkpoints.keep_best", checkpoints.keep_best);
  checkpoints.best_by = recipe.get("checkpoints.best_by", checkpoints.best_by);
  checkpoints.staging_bytes = recipe.get("checkpoints.staging_bytes", checkpoints.staging_bytes);
  settings.check_every_steps = recipe.get("check_every_steps", settings.check_every_steps);
  settings.callbacks = make_callbacks(recipe, "callbacks");
  settings.wall_time_s = recipe.get("wall_time_s", settings.wall_time_s);
  return settings;
}

}  // namespace

RunOutline outline(const Config& recipe, int ranks) { return outline(recipe, ranks, make_data(recipe)); }

RunOutline outline(const Config& recipe, int ranks, TrainingData data) {
  RunOutline run;
  run.mesh = read_mesh(recipe, "parallel", ranks);
  run.data = std::move(data);
  if (run.data.order == "balanced" && run.data.groups.empty()) {
    run.data.groups = classes_of(*run.data.train, recipe.get("task.target", "label"));
  }
  run.kind = TaskRegistry::instance().at("task", recipe.get("task.name", "classification"))(recipe, "task");
  const auto schema = data::Pipeline(run.data.train->schema(), run.data.transforms).output();
  run.model_data = run.kind->model_data(schema);
  for (const auto& [key, set] : {std::pair("data.validation", run.data.validation), {"data.test", run.data.test}}) {
    if (!set) continue;
    const auto others = run.kind->model_data(data::Pipeline(set->schema(), run.data.evaluation_transforms).output());
    if (others.input != run.model_data.input) {
      fail(Fault::Usage, fmt::format("{} has samples of [{}], and the model learns those of [{}] in data.train", key,
                                     fmt::join(others.input, ", "), fmt::join(run.model_data.input, ", ")));
    }
  }
  run.settings = [&recipe, metrics = run.kind->metrics(), model_data = run.model_data](int data_ranks) {
    auto settings = make_settings(recipe, data_ranks);
    for (const auto& name : recipe.get("metrics", metrics)) {
      settings.metrics.push_back(make_metric(name, model_data.outputs));
    }
    settings.model_data = model_data;
    // Asked for now, so that the recipe's keys are all known before the run begins; made again when its length is.
    (void)make_schedule(recipe, "schedule", {std::numeric_limits<std::int64_t>::max(), 1});
    settings.schedule = [&recipe, scale = rate_scale(recipe, data_ranks)](const RunLength& length) {
      return make_schedule(recipe, "schedule", length, scale);
    };
    if (parallel::make_wire(recipe, "wire")) {
      settings.wire = [&recipe] { return parallel::make_wire(recipe, "wire"); };
    }
    return settings;
  };
  // Before anybody counts with them.
  check(run.settings(run.mesh.automatic ? ranks : layout_of(run.mesh, ranks).data));
  run.fixes_recompute = recipe.has("recompute");
  run.loads_weights = !recipe.get("model.weights", "").empty();
  run.probe =
      std::make_shared<ModelProbe>(recipe, ProbedModel{.kind = run.kind,
                                                       .schema = schema,
                                                       .data = run.model_data,
                                                       .tensor_plan = run.mesh.tensor_plan,
                                                       .sequence = run.mesh.sequence,
                                                       .drops_inputs = run.settings(1).recompute_inputs,
                                                       .precision = precision_named(recipe.get("precision", "float32")),
                                                       .device = recipe.get("device", "cpu"),
                                                       .seed = static_cast<std::uint64_t>(recipe.get("seed", 0))});
  return run;
}

RecipeRun make_run(const Config& recipe, comm::Communicator& group, const std::optional<Layout>& before) {
  return make_run(recipe, group, make_data(recipe), before);
}

RecipeRun make_run(const Config& recipe, comm::Communicator& world, TrainingData data,
                   const std::optional<Layout>& before) {
  RecipeRun run;
  RunOutline begun = outline(recipe, world.size(), std::move(data));
  run.data = std::move(begun.data);
  auto agreed = agree_on_layout(begun, world, before);
  run.layout = std::move(agreed.layout);
  check(begun, run.layout, /*sparse=*/false);  // which the trainer sees to, when there is a model
  run.notes = std::move(agreed.reasons);
  run.probe = begun.probe;
  run.facts = facts_of(begun);
  make_mesh(begun.mesh, run.layout, world);
  MeshRecipe& cut = begun.mesh;
  const std::string kept_stages = keep_stages(cut, run.layout, before);
  run.settings = settings_of(begun, run.layout);
  run.settings.mesh = cut.mesh;
  const auto costs = agree_on_costs(begun, run.layout, world);
  auto model = make_model(recipe, begun.model_data, run.settings.seed,
                          {.tensor = cut.mesh->size(kTensorAxis) > 1 ? &cut.mesh->along(kTensorAxis) : nullptr,
                           .tensor_plan = cut.tensor_plan,
                           .sequence = cut.sequence,
                           .stage = cut.mesh->index(kPipeAxis),
                           .stages = cut.mesh->size(kPipeAxis),
                           .chunks = cut.pipeline_chunks,
                           .filled = cut.zero < 3 || begun.loads_weights,
                           .cuts = cut.cuts,
                           .costs = costs.costs});
  run.layout.cuts = model->cuts;
  run.layout.cuts_are_measured = !costs.costs.empty() || !kept_stages.empty();
  run.settings.layout = run.layout;
  if (run.layout.pipe > 1) {
    for (auto& line : stage_lines(model->chain(), model->cuts, run.layout.pipe, costs.costs))
      run.notes.push_back(std::move(line));
  }
  if (!kept_stages.empty()) run.notes.push_back(kept_stages);
  if (!costs.why_not.empty())
    run.notes.push_back("stages are balanced by the sizes of their matrices: " + costs.why_not);
  leave_out_others(run.settings.groups, *model);
  if (run.settings.recompute_inputs) check_made_inputs(*model, recipe);
  run.task = std::make_unique<RecipeTask>(begun.kind, std::move(model), begun.model_data.outputs);
  recipe.finish();
  return run;
}

}  // namespace lockstep::train
