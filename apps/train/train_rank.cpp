// One rank of `lockstep train`.
#include <cstdlib>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "json_text.h"
#include "lockstep/comm/runtime.h"
#include "lockstep/train/recipe.h"
#include "train/train_options.h"
#include "train/train_view.h"

namespace lockstep::apps {
namespace {

nlohmann::json json_of(const train::RunResult& result) {
  nlohmann::json evaluations = nlohmann::json::array();
  for (const auto& evaluation : result.evaluations) {
    nlohmann::json figures;
    for (const auto& [name, value] : evaluation.figures) figures[name] = value;
    evaluations.push_back(
        {{"of", evaluation.of}, {"step", evaluation.step}, {"epoch", evaluation.epoch}, {"figures", figures}});
  }
  return {{"steps", result.steps}, {"loss", result.loss}, {"evaluations", evaluations}};
}

void run(const TrainOptions& options, comm::Communicator& world) {
  const Config recipe = read_recipe(options);
  auto run = train::make_run(recipe, world);
  train::Trainer trainer(world, run.settings);
  if (world.rank() == 0) trainer.add(std::make_shared<TrainView>(std::getenv(kTerminal) != nullptr));
  const auto result = trainer.fit(*run.task, run.data);
  if (world.rank() != 0) return;
  if (options.json) {
    nlohmann::json json = json_of(result);
    if (options.print_hash) json["hash"] = train::hash_of(run.task->model());
    fmt::print("{}", json_text(json));
  } else if (options.print_hash) {
    fmt::print("{}\n", train::hash_of(run.task->model()));
  }
}

}  // namespace

void add_train_rank(CLI::App& app) {
  auto options = std::make_shared<TrainOptions>();
  auto* command = app.add_subcommand("train-rank", "One rank of a training");
  command->group("");  // hidden: only `train` starts it
  options->add_to(*command);
  command->callback([options] {
    end_with(comm::run_program(0, nullptr, [&](comm::Runtime& runtime) { run(*options, runtime.world()); }));
  });
}

}  // namespace lockstep::apps
