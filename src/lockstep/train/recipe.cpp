#include "lockstep/train/recipe.h"

#include <cmath>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/data/open.h"
#include "lockstep/data/transform.h"
#include "lockstep/data/transformed.h"
#include "lockstep/data/windows.h"
#include "lockstep/train/device.h"

namespace lockstep::train {
namespace {

/// The task and the model that a recipe names.
class RecipeTask final : public Task {
 public:
  RecipeTask(std::unique_ptr<TaskKind> kind, std::unique_ptr<models::Model> model)
      : kind_(std::move(kind)), model_(std::move(model)) {}
  torch::nn::Module& model() override { return model_->module(); }
  Score score(const data::Batch& batch) override { return kind_->score(*model_, batch); }

 private:
  std::unique_ptr<TaskKind> kind_;
  std::unique_ptr<models::Model> model_;
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
    return packed > 0 ? data::packed_windows(std::move(set), {.length = packed}) : set;
  };
  TrainingData result;
  result.train = open("train");
  if (!result.train)
    fail(Fault::Usage, "the recipe names no data: set data.train to a file, a pattern or a built-in set");
  result.validation = open("validation");
  result.test = open("test");
  result.order = recipe.get("data.order", "shuffle");
  result.transforms = recipe.get("data.transforms", std::vector<std::string>{});
  result.evaluation_transforms = recipe.get("data.evaluation_transforms", result.transforms);
  return result;
}

/// How the learning rate follows the number of ranks, when the batch does.
double lr_factor(const std::string& scale, int ranks) {
  if (scale == "none") return 1;
  if (scale == "linear") return ranks;
  if (scale == "sqrt") return std::sqrt(ranks);
  fail(Fault::Usage, fmt::format("scale_lr = \"{}\": it is \"none\", \"linear\" or \"sqrt\"", scale));
}

std::vector<parallel::ParameterGroup> make_groups(const Config& recipe) {
  const double decay = recipe.get("optimizer.weight_decay", 0.0);
  std::vector<parallel::ParameterGroup> groups = {{.patterns = {}, .weight_decay = decay}};
  const auto no_decay = recipe.get("optimizer.no_decay", std::vector<std::string>{});
  if (!no_decay.empty()) groups.push_back({.patterns = no_decay});
  for (const auto& name : recipe.keys("optimizer.groups")) {
    const std::string key = "optimizer.groups." + name;
    groups.push_back({.patterns = recipe.get(key + ".names", std::vector<std::string>{}),
                      .lr_factor = recipe.get(key + ".lr_factor", 1.0),
                      .weight_decay = recipe.get(key + ".weight_decay", decay)});
  }
  return groups;
}

TrainerSettings make_settings(const Config& recipe, const comm::Communicator& group, const TaskKind& kind) {
  TrainerSettings settings;
  settings.epochs = recipe.get("epochs", settings.epochs);
  settings.steps = recipe.get("steps", settings.steps);
  settings.seed = static_cast<std::uint64_t>(recipe.get("seed", 0));
  settings.exact = recipe.get("exact", settings.exact);
  settings.shards = static_cast<int>(recipe.get("shards", settings.shards));
  settings.device = recipe.get("device", settings.device);
  (void)device_named(settings.device, group.rank());  // before torch is used, which asks for GPUs once and for all
  if (recipe.has("fuse_step")) settings.fuse_step = recipe.get("fuse_step", true);
  settings.accumulate = recipe.get("accumulate", settings.accumulate);
  settings.local_steps = recipe.get("local_steps", settings.local_steps);
  settings.average_states = recipe.get("average_states", settings.average_states);
  settings.sync_batch_norm = recipe.get("sync_batch_norm", settings.sync_batch_norm);
  settings.clip_norm = recipe.get("clip_norm", settings.clip_norm);
  settings.clip_value = recipe.get("clip_value", settings.clip_value);
  settings.evaluation_batch = recipe.get("evaluation_batch", settings.evaluation_batch);
  settings.precision = precision_named(recipe.get("precision", "float32"));
  if (settings.precision != Precision::Fp16 && recipe.has("loss_scale")) {
    fail(Fault::Usage, "loss_scale is of precision = \"fp16\": no other needs it");
  }
  settings.loss_scale.start = recipe.get("loss_scale.start", settings.loss_scale.start);
  settings.loss_scale.grow_after = recipe.get("loss_scale.grow_after", settings.loss_scale.grow_after);
  const std::int64_t of_rank = recipe.get("batch_per_rank", 0);
  if (of_rank > 0 && recipe.has("batch"))
    fail(Fault::Usage, "batch is of all ranks together, batch_per_rank of each: set one");
  settings.batch = of_rank > 0 ? of_rank * group.size() : recipe.get("batch", settings.batch);
  settings.lr = recipe.get("optimizer.lr", settings.lr) * lr_factor(recipe.get("scale_lr", "none"), group.size());
  settings.optimizer = parallel::make_optimizer(recipe.get("optimizer.name", "sgd"), recipe, "optimizer");
  settings.groups = make_groups(recipe);
  auto& checkpoints = settings.checkpoints;
  checkpoints.every_steps = recipe.get("checkpoints.every_steps", checkpoints.every_steps);
  checkpoints.keep_last = recipe.get("checkpoints.keep_last", checkpoints.keep_last);
  checkpoints.keep_best = recipe.get("checkpoints.keep_best", checkpoints.keep_best);
  checkpoints.best_by = recipe.get("checkpoints.best_by", checkpoints.best_by);
  settings.check_every_steps = recipe.get("check_every_steps", settings.check_every_steps);
  settings.callbacks = make_callbacks(recipe, "callbacks");
  settings.wall_time_s = recipe.get("wall_time_s", settings.wall_time_s);
  for (const auto& name : recipe.get("metrics", kind.metrics())) {
    settings.metrics.push_back(MetricRegistry::instance().at("metric", name)());
  }
  return settings;
}

}  // namespace

RecipeRun make_run(const Config& recipe, const comm::Communicator& group) {
  return make_run(recipe, group, make_data(recipe));
}

RecipeRun make_run(const Config& recipe, const comm::Communicator& group, TrainingData data) {
  RecipeRun run;
  run.data = std::move(data);
  auto kind = TaskRegistry::instance().at("task", recipe.get("task.name", "classification"))(recipe, "task");
  run.settings = make_settings(recipe, group, *kind);
  const data::Schema schema = data::Pipeline(run.data.train->schema(), run.data.transforms).output();
  auto model =
      models::make_model(recipe.get("model.name", "mlp"), recipe, "model", kind->model_data(schema), run.settings.seed);
  run.task = std::make_unique<RecipeTask>(std::move(kind), std::move(model));
  // Asked for now, so that the recipe's keys are all known before the run begins; made again when its length is.
  (void)make_schedule(recipe, "schedule", {std::numeric_limits<std::int64_t>::max(), 1});
  run.settings.schedule = [&recipe](const RunLength& length) { return make_schedule(recipe, "schedule", length); };
  if (parallel::make_wire(recipe, "wire")) {
    run.settings.wire = [&recipe] { return parallel::make_wire(recipe, "wire"); };
  }
  recipe.finish();
  return run;
}

}  // namespace lockstep::train
