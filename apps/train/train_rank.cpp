// One rank of `lockstep train`.
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "json_text.h"
#include "lockstep/comm/environment.h"
#include "lockstep/comm/runtime.h"
#include "lockstep/comm/thread_ranks.h"
#include "lockstep/core/cpu.h"
#include "lockstep/core/error.h"
#include "lockstep/core/log.h"
#include "lockstep/core/memory_of_process.h"
#include "lockstep/core/text.h"
#include "lockstep/train/checkpoint.h"
#include "lockstep/train/data_facts.h"
#include "lockstep/train/event_observer.h"
#include "lockstep/train/memory_forecast.h"
#include "lockstep/train/recipe.h"
#include "lockstep/train/resumption.h"
#include "lockstep/train/run_folder.h"
#include "lockstep/train/stop_request.h"
#include "train/loss_file.h"
#include "train/lr_options.h"
#include "train/lr_view.h"
#include "train/train_options.h"
#include "train/train_view.h"

namespace lockstep::apps {
namespace {

nlohmann::json json_of_result(const train::RunResult& result, const std::string& hash) {
  nlohmann::json evaluations = nlohmann::json::array();
  for (const auto& evaluation : result.evaluations) {
    nlohmann::json figures;
    for (const auto& [name, value] : evaluation.figures) figures[name] = value;
    evaluations.push_back(
        {{"of", evaluation.of}, {"step", evaluation.step}, {"epoch", evaluation.epoch}, {"figures", figures}});
  }
  nlohmann::json json = {{"steps", result.steps},
                         {"skipped", result.skipped},
                         {"loss", result.loss},
                         {"imbalance", result.imbalance},
                         {"seconds", result.seconds},
                         {"waited_for_ranks_share", result.waited_share},
                         {"hash", hash},
                         {"evaluations", evaluations}};
  if (result.memory.known()) json["memory"] = result.memory.json();
  if (!result.ended_early.empty()) json["ended_early"] = result.ended_early;
  return json;
}

/// New settings of a resumed run are kept once a step has gone well with them: a typo would be in the way of
/// everyone who resumes it later. On a full disk they may be kept after a later step.
class KeepRecipe final : public train::Observer {
 public:
  KeepRecipe(train::RunFolder& folder, const Config& recipe) : folder_(folder), recipe_(recipe) {}
  void on_step(const train::StepReport&) override { keep(); }
  void on_end() override {
    if (warned_) keep();  // not if no step was taken
  }

 private:
  void keep() {
    if (kept_) return;
    try {
      folder_.go_on(recipe_);
      kept_ = true;
    } catch (const Error& error) {
      if (!std::exchange(warned_, true)) log().warn("run.json stays as it was for now: {}", error.what());
    }
  }

  train::RunFolder& folder_;
  const Config& recipe_;
  bool kept_ = false;
  bool warned_ = false;
};

/// In the recipe's terms: of its optimizer.lr, which may be multiplied by the number of ranks.
void find_lr(const train::LrSweep& sweep, bool as_json, const Config& recipe, train::RecipeRun& run,
             comm::Communicator& world) {
  const double lr = recipe.get("optimizer.lr", train::TrainerSettings().lr);
  const double factor = lr == 0 ? 1 : run.settings.lr / lr;
  auto found =
      train::find_lr(world, run.settings, *run.task, run.data, {sweep.from * factor, sweep.to * factor, sweep.steps});
  if (world.rank() != 0) return;
  for (auto& point : found.points) point.lr /= factor;
  if (found.suggested) *found.suggested /= factor;
  fmt::print("{}", as_json ? json_text(json_of(found)) : text_of(found));
}

/// None where links cannot be measured, as on a GPU.
std::optional<parallel::MemoryUse> predicted_memory(train::RecipeRun& run) {
  try {
    const auto& costs = run.probe->costs(run.layout.tensor);
    return train::most_of_each(train::forecast(costs, run.layout, run.facts));
  } catch (const Error&) {
    return std::nullopt;
  }
}

int width_of_terminal() {
  const char* width = std::getenv(kTerminal);
  return width == nullptr ? 0 : static_cast<int>(parse_integer(kTerminal, width, 1, 1 << 16));
}

/// For a new run as its files say it, so that errors name the user's own places. Where these are not what the run
/// began with, as on another host, as the run's folder says it.
Config recipe_of(const RankOptions& options, const train::RunFolder& folder) {
  Config own = folder.recipe();
  for (const auto& assignment : options.assignments) own.set(assignment);
  if (options.recipe.empty()) return own;
  try {
    Config given = Config::from_file(options.recipe);
    for (const auto& assignment : options.assignments) given.set(assignment);
    if (given.toml() == own.toml()) return given;
  } catch (const Error&) {
    // It is not there.
  }
  return own;
}

bool has_all_weights(const train::RecipeRun& run) {
  return run.layout.data == run.layout.ranks() && run.layout.zero < 3;
}

void check_hashed(const train::RecipeRun& run) {
  if (has_all_weights(run)) return;
  fail(Fault::Usage, fmt::format("--print-hash is of all weights, and of a run on {} no rank has all: leave it out, "
                                 "and compare the file that 'lockstep runs export' makes of its checkpoint",
                                 run.layout.text()));
}

/// The exit code.
int run(const RankOptions& options, const LrOptions& lr, comm::Communicator& world) {
  train::RunFolder folder(options.folder);
  const Config recipe = recipe_of(options, folder);
  const std::int64_t memory_before = proportional_set_size();
  const auto before = options.resume ? train::layout_before(folder.checkpoints(), world) : std::nullopt;
  auto run = train::make_run(recipe, world, before);
  run.settings.memory_before_bytes = memory_before;
  if (options.print_hash) check_hashed(run);
  if (lr.find) {
    find_lr(lr.sweep, options.json, recipe, run, world);
    return exit_code::kDone;
  }
  // Before its observers: it takes as long as some steps of a few samples.
  const auto predicted = world.rank() == 0 ? predicted_memory(run) : std::nullopt;
  run.settings.checkpoints.folder = folder.checkpoints();
  run.settings.checkpoints.resume = options.resume;
  train::Trainer trainer(world, run.settings);
  // Of weights that are cut or shared out it would be a part under the name of the whole.
  const torch::nn::Module* shown = has_all_weights(run) ? &run.task->model() : nullptr;
  if (world.rank() == 0) {
    if (options.resume) trainer.add(std::make_shared<KeepRecipe>(folder, recipe));
    for (const auto& note : run.notes) fmt::print(stderr, "{}\n", note);
    trainer.add(std::make_shared<TrainView>(width_of_terminal()));
    trainer.add(std::make_shared<train::EventObserver>(folder.path(), shown));
    if (!options.losses.empty()) trainer.add(std::make_shared<LossFile>(options.losses));
  }
  auto result = trainer.fit(*run.task, run.data);
  result.memory.predicted = predicted;
  const auto hosts = world.gather_bytes(machine().host);
  if (world.rank() == 0) {
    const std::string hash = has_all_weights(run) ? train::hash_of(run.task->model()) : "";
    auto json = json_of_result(result, hash);
    json["ranks"] = world.size();
    json["hosts"] = std::set(hosts.begin(), hosts.end());
    json["seed"] = run.settings.seed;
    json["layout"] = run.layout.text();
    if (!run.notes.empty()) json["notes"] = run.notes;
    json["data"] = train::data_facts(run.data, run.settings.seed);
    folder.end(result.stopped ? "stopped" : "done", json);
    if (options.json) {
      fmt::print("{}", json_text(json));
    } else if (options.print_hash) {
      fmt::print("{}\n", hash);
    }
    if (result.memory.known()) fmt::print(stderr, "memory of a rank: {}\n", result.memory.text());
    fmt::print(stderr, "curves: tensorboard --logdir {}\n", folder.path());
    if (const auto steps = train::CheckpointFolder(folder.checkpoints()).steps(); !steps.empty()) {
      fmt::print(stderr, "checkpoint: {}/{:010}\n", folder.checkpoints(), steps.back());
    }
    if (!result.ended_early.empty()) fmt::print(stderr, "ended early by {}\n", result.ended_early);
    if (result.stopped) fmt::print(stderr, "saved before its end; go on with '{}'\n", folder.resume_command());
  }
  return result.stopped ? exit_code::kRequeue : exit_code::kDone;
}

}  // namespace

void add_train_rank(CLI::App& app) {
  auto options = std::make_shared<RankOptions>();
  auto lr = std::make_shared<LrOptions>();
  auto* command = app.add_subcommand(kTrainRank, "One rank of a training");
  command->group("");  // hidden: only `train` and `runs resume` start it
  command->add_option("folder", options->folder, "Of the run")->required();
  command->add_flag("--resume", options->resume, "From its newest checkpoint");
  command->add_option(kRecipe, options->recipe, "The file it was made of");
  command->add_option(kSet, options->assignments, "key=value, over what its recipe says")->allow_extra_args(false);
  command->add_option(kThreadsAsRanks, options->threads_as_ranks, "So many threads of this process are the ranks");
  options->add_to(*command);
  lr->add_to(*command);
  command->callback([options, lr] {
    const train::StopRequest from_the_start;  // a request to save counts while data and model are made, too
    int code = exit_code::kDone;
    const int failed = comm::run_program(0, nullptr, [&](comm::Runtime& runtime) {
      options->resume |= runtime.restart() > 0;
      if (options->threads_as_ranks == 0) {
        code = run(*options, *lr, runtime.world());
        return;
      }
      comm::ThreadRanksOptions waiting;
      waiting.timeout_s = comm::environment::get_seconds(comm::environment::kTimeout, waiting.timeout_s);
      comm::run_ranks(
          options->threads_as_ranks,
          [&](comm::Communicator& world) {
            const int mine = run(*options, *lr, world);
            if (world.rank() == 0) code = mine;
          },
          waiting);
    });
    end_with(failed != exit_code::kDone ? failed : code);
  });
}

}  // namespace lockstep::apps
