// `lockstep train`: a recipe on some ranks, each of which is train_rank.cpp.
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "lockstep/comm/launcher.h"
#include "lockstep/core/config.h"
#include "lockstep/core/paths.h"
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
Every key of the recipe can be set on the command line; an unknown one is an error.)";

struct Options {
  TrainOptions train;
  comm::LaunchOptions launch;
};

void run(Options& options) {
  // What is wrong with the recipe itself is said before any rank is started.
  const Config recipe = read_recipe(options.train);
  if (recipe.get("exact", false)) set_exact_environment();
  if (isatty(STDERR_FILENO) == 1) setenv(kTerminal, "1", 1);
  options.launch.command = {own_program(), "train-rank", options.train.recipe};
  for (const auto& assignment : options.train.assignments) options.launch.command.push_back(assignment);
  if (options.train.print_hash) options.launch.command.emplace_back("--print-hash");
  if (options.train.json) options.launch.command.emplace_back("--json");
  options.launch.starter = {own_program(), kMpirunStarter, "--"};
  if (options.launch.hosts.empty() && !options.launch.ranks) options.launch.ranks = 1;
  end_with(comm::launch(options.launch));
}

}  // namespace

void add_train(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("train", "Train a model from a recipe, on any number of ranks");
  command->footer(kExamples);
  options->train.add_to(*command);
  command->add_option("-n,--ranks", options->launch.ranks,
                      "Number of ranks; by default 1, with --hosts all their slots");
  command->add_option("--hosts", options->launch.hosts, "Hosts and the ranks on each, a:4,b:4; needs Open MPI");
  command->add_option("--bind", options->launch.bind, "Cores of each rank, as of 'lockstep launch'");
  command->add_option("--threads", options->launch.threads,
                      "Threads of each rank; by default its fair share of the cores");
  command->add_option("--restarts", options->launch.restarts, "Start a failed run again, up to this many times");
  command->callback([options] { run(*options); });
}

}  // namespace lockstep::apps
