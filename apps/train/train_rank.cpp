// One rank of `lockstep train`.
#include <cstdlib>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "json_text.h"
#include "lockstep/comm/runtime.h"
#include "lockstep/core/error.h"
#include "lockstep/train/event_observer.h"
#include "lockstep/train/recipe.h"
#include "lockstep/train/run_folder.h"
#include "train/train_options.h"
#include "train/train_view.h"

namespace lockstep::apps {
namespace {

nlohmann::json json_of(const train::RunResult& result, const std::string& hash) {
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
                         {"hash", hash},
                         {"evaluations", evaluations}};
  if (!result.ended_early.empty()) json["ended_early"] = result.ended_early;
  return json;
}

/// The exit code.
int run(const RankOptions& options, comm::Runtime& runtime) {
  comm::Communicator& world = runtime.world();
  train::RunFolder folder(options.folder);
  const Config recipe = folder.recipe();
  auto run = train::make_run(recipe, world);
  run.settings.checkpoints.folder = folder.checkpoints();
  run.settings.checkpoints.resume = options.resume || runtime.restart() > 0;
  train::Trainer trainer(world, run.settings);
  if (world.rank() == 0) {
    trainer.add(std::make_shared<TrainView>(std::getenv(kTerminal) != nullptr));
    trainer.add(std::make_shared<train::EventObserver>(folder.path(), run.task->model()));
  }
  const auto result = trainer.fit(*run.task, run.data);
  if (world.rank() == 0) {
    const std::string hash = train::hash_of(run.task->model());
    const auto json = json_of(result, hash);
    folder.set_result(json);
    if (options.json) {
      fmt::print("{}", json_text(json));
    } else if (options.print_hash) {
      fmt::print("{}\n", hash);
    }
    fmt::print(stderr, "curves: tensorboard --logdir {}\ncheckpoint: {}/{:010}\n", folder.path(), folder.checkpoints(),
               result.steps);
    if (!result.ended_early.empty()) fmt::print(stderr, "ended early by {}\n", result.ended_early);
    if (result.stopped) fmt::print(stderr, "saved on request; go on with 'lockstep runs resume {}'\n", folder.name());
  }
  return result.stopped ? exit_code::kRequeue : exit_code::kDone;
}

}  // namespace

void add_train_rank(CLI::App& app) {
  auto options = std::make_shared<RankOptions>();
  auto* command = app.add_subcommand(kTrainRank, "One rank of a training");
  command->group("");  // hidden: only `train` and `runs resume` start it
  command->add_option("folder", options->folder, "Of the run")->required();
  command->add_flag("--resume", options->resume, "From its newest checkpoint");
  options->add_to(*command);
  command->callback([options] {
    int code = exit_code::kDone;
    const int failed = comm::run_program(0, nullptr, [&](comm::Runtime& runtime) { code = run(*options, runtime); });
    end_with(failed != exit_code::kDone ? failed : code);
  });
}

}  // namespace lockstep::apps
