// `lockstep train`: a recipe on some ranks, each of which is train_rank.cpp.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "commands.h"
#include "lockstep/core/config.h"
#include "lockstep/core/error.h"
#include "lockstep/core/paths.h"
#include "lockstep/train/run_folder.h"
#include "train/exact_environment.h"
#include "train/train_options.h"

namespace lockstep::apps {
namespace {

constexpr const char kExamples[] = R"(Examples:
  lockstep train recipes/mnist_cnn.toml                     one rank, all cores
  lockstep train recipes/mnist_cnn.toml -n 4                four ranks
  lockstep train recipes/mnist_cnn.toml optimizer.lr=0.002 epochs=5
  lockstep train recipes/mnist_cnn.toml -n 3 exact=true steps=50 --print-hash
                                                            the same hash on any number of ranks
Every key of the recipe can be set on the command line; an unknown one is an error.
What a run leaves is in runs/NAME; see 'lockstep runs'.)";

struct Options {
  TrainOptions train;
  std::string recipe;
  std::string name;
};

void run(Options& options) {
  Config recipe = Config::from_file(options.recipe);
  for (const auto& assignment : options.train.assignments) recipe.set(assignment);
  const std::string stem = std::filesystem::path(options.recipe).stem().string();
  options.train.rank.folder = train::RunFolder::create(options.train.runs, options.name, stem, recipe).path();
  launch_training(options.train);
}

}  // namespace

void launch_training(TrainOptions& options) {
  train::RunFolder folder(options.rank.folder);
  if (folder.recipe().get("exact", false)) set_exact_environment();
  if (isatty(STDERR_FILENO) == 1) setenv(kTerminal, "1", 1);
  auto& launch = options.launch;
  launch.command = {own_program(), kTrainRank, options.rank.folder};
  if (options.rank.resume) launch.command.emplace_back("--resume");
  if (options.rank.print_hash) launch.command.emplace_back("--print-hash");
  if (options.rank.json) launch.command.emplace_back("--json");
  if (options.one_process) {
    if (!launch.hosts.empty()) fail(Fault::Usage, "--one-process is on one host; leave --hosts out");
    launch.command.insert(launch.command.end(), {kThreadsAsRanks, std::to_string(launch.ranks.value_or(1))});
    launch.ranks = 1;
  }
  launch.starter = {own_program(), kMpirunStarter, "--"};
  if (launch.hosts.empty() && !launch.ranks) launch.ranks = 1;
  const int code = comm::launch(launch);
  // Read again: rank 0 has written the result.
  train::RunFolder ended(options.rank.folder);
  ended.set_state(code == exit_code::kDone ? "done" : code == exit_code::kRequeue ? "stopped" : "failed");
  end_with(code);
}

void add_train(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("train", "Train a model from a recipe, on any number of ranks");
  command->footer(kExamples);
  command->add_option("recipe", options->recipe, "TOML file, see recipes/")->required();
  command->add_option("--name", options->name, "Of the run; by default that of the recipe and a number");
  options->train.add_to(*command);
  command->callback([options] { run(*options); });
}

}  // namespace lockstep::apps
