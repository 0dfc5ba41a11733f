// `lockstep train`: a recipe on some ranks, each of which is train_rank.cpp.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "commands.h"
#include "lockstep/core/config.h"
#include "lockstep/core/error.h"
#include "lockstep/core/paths.h"
#include "lockstep/train/run_folder.h"
#include "train/exact_environment.h"
#include "train/lr_options.h"
#include "train/train_options.h"

namespace lockstep::apps {
namespace {

constexpr const char kExamples[] = R"(Examples:
  lockstep train recipes/mnist_cnn.toml                     one rank, all cores
  lockstep train recipes/mnist_cnn.toml -n 4                four ranks
  lockstep train recipes/mnist_cnn.toml optimizer.lr=0.002 epochs=5
  lockstep train recipes/mnist_cnn.toml -n 3 exact=true steps=50 --print-hash
                                                            the same hash on any number of ranks
  lockstep train recipes/mnist_cnn.toml -n 2 --find-lr      which learning rate to begin with
Every key of the recipe can be set on the command line; an unknown one is an error.
What a run leaves is in runs/NAME; see 'lockstep runs'.)";

struct Options {
  TrainOptions train;
  LrOptions lr;
  std::string recipe;
  std::string name;
};

int launch_ranks(const TrainOptions& options, const std::vector<std::string>& more) {
  if (train::RunFolder(options.rank.folder).recipe().get("exact", false)) set_exact_environment();
  if (isatty(STDERR_FILENO) == 1) setenv(kTerminal, "1", 1);
  auto launch = options.launch;
  launch.command = {own_program(), kTrainRank, options.rank.folder};
  if (options.rank.resume) launch.command.emplace_back("--resume");
  if (options.rank.print_hash) launch.command.emplace_back("--print-hash");
  if (options.rank.json) launch.command.emplace_back("--json");
  launch.command.insert(launch.command.end(), more.begin(), more.end());
  if (options.one_process) {
    if (!launch.hosts.empty()) fail(Fault::Usage, "--one-process is on one host; leave --hosts out");
    launch.command.insert(launch.command.end(), {kThreadsAsRanks, std::to_string(launch.ranks.value_or(1))});
    launch.ranks = 1;
  }
  launch.starter = {own_program(), kMpirunStarter, "--"};
  if (launch.hosts.empty() && !launch.ranks) launch.ranks = 1;
  // A large checkpoint takes its time.
  constexpr double kToSave_s = 60;
  if (launch.hosts.empty() && !launch.grace_s) launch.grace_s = kToSave_s;
  return comm::launch(launch);
}

/// Ranks read the recipe from a folder as ever; here it goes when they have ended.
void find_lr(Options& options, const Config& recipe) {
  const auto folder = train::RunFolder::create(options.train.runs, "", "find_lr", recipe).path();
  struct Remove {
    const std::string& folder;
    const std::string& root;
    ~Remove() {
      std::error_code ignored;
      std::filesystem::remove_all(folder, ignored);
      std::filesystem::remove(root, ignored);  // if it is empty
    }
  } const remove{folder, options.train.runs};
  options.train.rank.folder = folder;
  end_with(launch_ranks(options.train, options.lr.words()));
}

void run(Options& options) {
  Config recipe = Config::from_file(options.recipe);
  for (const auto& assignment : options.train.assignments) recipe.set(assignment);
  if (options.lr.find) return find_lr(options, recipe);
  const std::string stem = std::filesystem::path(options.recipe).stem().string();
  options.train.rank.folder = train::RunFolder::create(options.train.runs, options.name, stem, recipe).path();
  launch_training(options.train);
}

}  // namespace

void launch_training(TrainOptions& options) {
  const int code = launch_ranks(options, {});
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
  options->lr.add_to(*command);
  command->callback([options] { run(*options); });
}

}  // namespace lockstep::apps
