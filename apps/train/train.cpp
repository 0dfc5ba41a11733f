// `lockstep train`: a recipe on some ranks, each of which is train_rank.cpp.
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "commands.h"
#include "json_text.h"
#include "lockstep/comm/mpirun.h"
#include "lockstep/core/config.h"
#include "lockstep/core/cpu.h"
#include "lockstep/core/error.h"
#include "lockstep/core/log.h"
#include "lockstep/core/paths.h"
#include "lockstep/train/checkpoint.h"
#include "lockstep/train/dry_run.h"
#include "lockstep/train/instructions.h"
#include "lockstep/train/mesh_recipe.h"
#include "lockstep/train/resumption.h"
#include "lockstep/train/run_folder.h"
#include "lockstep/train/run_lock.h"
#include "mpirun_child.h"
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
  lockstep train recipes/gpt.toml -n 4 --dry-run            whether it fits into memory, and what would
Every key of the recipe can be set on the command line; an unknown one is an error.
What a run leaves is in runs/NAME; see 'lockstep runs'.)";

struct Options {
  TrainOptions train;
  LrOptions lr;
  std::string recipe;
  std::string name;
  bool resume = false;
  bool dry_run = false;
};

/// In characters; 0: standard error is none.
int width_of_terminal() {
  if (isatty(STDERR_FILENO) != 1) return 0;
  constexpr int kUsual = 80;
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : kUsual;
}

/// In exact mode a rank is started with the instructions that settled() found.
void pin_environment(const TrainOptions& options, const Config& recipe) {
  if (!recipe.get("exact", false)) return;
  if (options.launch.threads.value_or(1) > 1) {
    fail(Fault::Usage, fmt::format("--threads {}: with exact = true a rank computes on one thread, as several would "
                                   "cut sums elsewhere; leave it out, and use more ranks",
                                   *options.launch.threads));
  }
  for (const auto& [name, value] : train::environment_of(recipe.get("instructions", ""))) {
    setenv(name.c_str(), value.c_str(), 1);
  }
}

int launch_ranks(const TrainOptions& options, const Config& recipe, const std::vector<std::string>& more) {
  pin_environment(options, recipe);
  if (const int width = width_of_terminal(); width > 0) setenv(kTerminal, std::to_string(width).c_str(), 1);
  auto launch = options.launch;
  launch.command = {own_program(), kTrainRank, options.rank.folder};
  if (options.rank.resume) launch.command.emplace_back("--resume");
  if (!options.rank.recipe.empty()) launch.command.insert(launch.command.end(), {kRecipe, options.rank.recipe});
  if (options.rank.print_hash) launch.command.emplace_back("--print-hash");
  if (options.rank.json) launch.command.emplace_back("--json");
  if (!options.rank.losses.empty()) launch.command.insert(launch.command.end(), {"--losses", options.rank.losses});
  for (const auto& assignment : options.rank.assignments) {
    launch.command.insert(launch.command.end(), {kSet, assignment});
  }
  launch.command.insert(launch.command.end(), more.begin(), more.end());
  if (options.one_process) {
    if (!launch.hosts.empty()) fail(Fault::Usage, "--one-process is on one host; leave --hosts out");
    if (launch.ranks.value_or(1) < 1) fail(Fault::Usage, fmt::format("-n {}: expected 1 or more", *launch.ranks));
    launch.command.insert(launch.command.end(), {kThreadsAsRanks, std::to_string(launch.ranks.value_or(1))});
    launch.ranks = 1;
  }
  launch.starter = {own_program(), kMpirunStarter, "--"};
  if (!launch.hosts.empty()) return launch_on_hosts(launch);
  if (!launch.ranks) launch.ranks = 1;
  if (!launch.grace_s) launch.grace_s = kToSave_s;
  return comm::launch(launch);
}

/// Fault::Comm if mpirun could not start the ranks of the run in options.rank.folder.
void check_started(const TrainOptions& options, int code) {
  constexpr int kNotStarted = 255;  // Open MPI's, for what it could not start
  if (code != kNotStarted || options.launch.hosts.empty()) return;
  const train::RunFolder run(options.rank.folder);
  if (run.state() == "running" && train::RunFolder::begun(run.path())) return;
  fail(Fault::Comm, fmt::format("mpirun could not start ranks on {}, and says why above; each host must be reached by "
                                "ssh without a password, and have {} and this folder",
                                options.launch.hosts, own_program().string()));
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
  const int code = launch_ranks(options.train, recipe, options.lr.words());
  check_started(options.train, code);
  end_with(code);
}

/// The recipe with the assignments over it. In exact mode its instructions are pinned to this host's, so that the run
/// goes on with the same wherever it is resumed.
Config settled(Config recipe, const std::vector<std::string>& assignments) {
  for (const auto& assignment : assignments) recipe.set(assignment);
  if (recipe.get("exact", false)) {
    recipe.set("instructions=" + train::pinned_instructions(recipe.get("instructions", "best")));
  }
  return recipe;
}

/// What ranks lay over a recipe, so that they have the instructions that settled() found.
std::vector<std::string> pinned(std::vector<std::string> assignments, const Config& recipe) {
  if (recipe.get("exact", false)) assignments.push_back("instructions=" + recipe.get("instructions", ""));
  return assignments;
}

/// A run goes on with its own.
void warn_of_other_recipe(const Options& options) {
  if (!std::filesystem::exists(options.recipe)) return;
  Config given = Config::from_file(options.recipe);
  Config own = train::RunFolder::open(options.train.runs, options.name).recipe();
  for (Config* recipe : {&given, &own}) {
    for (const auto& assignment : options.train.assignments) recipe->set(assignment);
    recipe->set("instructions=any");  // which the run has pinned
  }
  if (given.toml() == own.toml()) return;
  log().warn(
      "the run '{}' goes on with its own recipe; {}, which says otherwise, is not read; change settings of a run "
      "by key=value",
      options.name, options.recipe);
}

/// Starts the ranks of the run in options.rank.folder, whose recipe will be this one, and ends the program with their
/// exit code.
void launch_training(const TrainOptions& options, const Config& recipe) {
  const int code = launch_ranks(options, recipe, {});
  check_started(options, code);
  // How it ended rank 0 has written, if it could.
  train::RunFolder run(options.rank.folder);
  run.end_badly();
  const auto steps = train::CheckpointFolder(run.checkpoints()).steps();
  const bool failed = code != exit_code::kDone && code != exit_code::kUsage && code != exit_code::kRequeue;
  if (failed && !steps.empty()) {
    fmt::print(stderr, "the run has failed; its last checkpoint is of step {}; go on with '{}'\n", steps.back(),
               run.resume_command());
  }
  end_with(code);
}

/// In this process alone: no rank is started and no folder made. Ends the program.
void dry_run(const TrainOptions& options, const Config& recipe, const std::optional<train::Layout>& before = {}) {
  pin_environment(options, recipe);
  const auto& launch = options.launch;
  int ranks = launch.ranks.value_or(1), of_host = ranks;
  if (!launch.hosts.empty()) {
    int slots = 0;
    of_host = 0;
    for (const auto& host : comm::parse_hosts(launch.hosts)) {
      slots += host.slots;
      of_host = std::max(of_host, host.slots);
    }
    ranks = launch.ranks.value_or(slots);
  }
  if (ranks < 1) fail(Fault::Usage, fmt::format("-n {}: expected 1 or more", ranks));
  of_host = std::min(of_host, ranks);
  at::set_num_threads(launch.threads.value_or(fair_threads(of_host)));  // links are measured as a rank computes them
  const auto found = train::dry_run(recipe, ranks, train::memory_limit(of_host), before);
  fmt::print("{}", options.rank.json ? json_text(found.json()) : found.text());
  end_with(found.fits ? exit_code::kDone : exit_code::kUsage);
}

/// Each task of a Slurm step would begin a run of its own.
void start_once() {
  const char* tasks = std::getenv("SLURM_STEP_NUM_TASKS");
  if (tasks == nullptr || std::string(tasks) == "1") return;
  fail(Fault::Usage,
       fmt::format("srun starts this {0} times, but it starts its ranks by itself; start it once: in a batch script "
                   "without srun, or by srun -n 1, with -n {0} behind it",
                   tasks));
}

/// With as many as before, unless that is more than this host has room for and the recipe can do with fewer.
int ranks_to_go_on_with(const train::RunFolder& run, const Config& recipe) {
  const train::CheckpointFolder checkpoints(run.checkpoints());
  const auto steps = checkpoints.steps();
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    int before = 0;
    try {
      before = std::max(1, checkpoints.facts(*step).value("ranks", 1));
    } catch (...) {
      continue;  // the ranks will say what is wrong with it, and take the one before it, too
    }
    const int room = static_cast<int>(usable_cpus().size());
    const int ranks = train::ranks_within(train::read_mesh(recipe, "parallel", before), before, room);
    if (ranks > room) {
      log().warn("this host has {} cores for the {} ranks that the run's layout needs, see -n", room, ranks);
    } else if (ranks < before) {
      log().warn("the run had {} ranks; this host has room for {}, see -n", before, ranks);
    }
    return ranks;
  }
  return 1;
}

/// A run as it goes on: its own recipe with the assignments over it. Says with how many ranks, if nobody has.
Config gone_on_with(const train::RunFolder& run, TrainOptions& options) {
  Config recipe = settled(run.recipe(), options.assignments);
  if (!options.launch.ranks && options.launch.hosts.empty()) options.launch.ranks = ranks_to_go_on_with(run, recipe);
  return recipe;
}

void run(Options& options) {
  start_once();
  if (options.resume && options.name.empty()) fail(Fault::Usage, "--resume goes on with the run that --name names");
  if (options.resume && options.lr.find)
    fail(Fault::Usage, "--find-lr is for a run that has not begun: leave out it or --resume");
  if (options.resume && train::RunFolder::exists(options.train.runs, options.name)) {
    warn_of_other_recipe(options);
    if (!options.dry_run) return resume_training(options.train, options.name);
    const auto run = train::RunFolder::open(options.train.runs, options.name);
    const Config recipe = gone_on_with(run, options.train);
    return dry_run(options.train, recipe, train::layout_before(run.checkpoints()));
  }
  const Config recipe = settled(Config::from_file(options.recipe), options.train.assignments);
  if (options.dry_run) return dry_run(options.train, recipe);
  if (options.lr.find) return find_lr(options, recipe);
  const std::string stem = std::filesystem::path(options.recipe).stem().string();
  auto& rank = options.train.rank;
  rank.folder = train::RunFolder::create(options.train.runs, options.name, stem, recipe).path();
  rank.recipe = options.recipe;
  rank.assignments = pinned(options.train.assignments, recipe);
  const train::RunLock lock(rank.folder);
  try {
    launch_training(options.train, recipe);
  } catch (...) {
    train::RunFolder::forget_unless_begun(rank.folder);  // so that its name is free again
    throw;
  }
}

}  // namespace

void resume_training(TrainOptions& options, const std::string& name) {
  start_once();
  const std::string folder = train::RunFolder::open(options.runs, name).path();
  const train::RunLock lock(folder);
  const train::RunFolder run(folder);
  const Config recipe = gone_on_with(run, options);
  auto& rank = options.rank;
  rank.folder = folder;
  rank.resume = true;
  rank.assignments = pinned(options.assignments, recipe);
  launch_training(options, recipe);
}

void add_train(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("train", "Train a model from a recipe, on any number of ranks");
  command->footer(kExamples);
  command->add_option("recipe", options->recipe, "TOML file, see recipes/")->required();
  command->add_option("--name", options->name, "Of the run; by default that of the recipe and a number");
  command->add_flag("--resume", options->resume, "Go on with the run of that name if there is one");
  command->add_flag("--dry-run", options->dry_run,
                    "Say how the run would be laid out and whether it fits into memory; start nothing");
  options->train.add_to(*command);
  options->lr.add_to(*command);
  command->callback([options] { run(*options); });
}

}  // namespace lockstep::apps
