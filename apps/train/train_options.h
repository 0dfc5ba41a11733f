// apps/train/train_options.h
//
// What `lockstep train` and `lockstep runs resume` take alike, and tell their ranks.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "lockstep/comm/launcher.h"
#include "lockstep/train/run_folder.h"

namespace lockstep::apps {

/// Set for ranks whose standard error is a terminal in the end, to its width.
inline constexpr const char kTerminal[] = "LOCKSTEP_TERMINAL";
inline constexpr const char kTrainRank[] = "train-rank";
inline constexpr const char kThreadsAsRanks[] = "--threads-as-ranks";
inline constexpr const char kSet[] = "--set";
inline constexpr const char kRecipe[] = "--recipe";

/// From SIGTERM on: a large checkpoint takes its time.
inline constexpr double kToSave_s = 60;

struct RankOptions {
  std::string folder;  // of the run
  std::string recipe;  // of a new one: the file that the recipe there was made of
  bool resume = false;
  std::vector<std::string> assignments;  // over the recipe there
  int threads_as_ranks = 0;              // above 0: so many threads of one process are the ranks
  bool print_hash = false;
  bool json = false;
  std::string losses;  // file

  void add_to(CLI::App& command) {
    command.add_flag("--print-hash", print_hash,
                     "At the end print the hash of all weights, of a run whose ranks each have all");
    command.add_flag("--json", json, "Print the result as JSON");
    command.add_option("--losses", losses, "File for the loss of every step, as text in full precision");
  }
};

struct TrainOptions {
  RankOptions rank;
  comm::LaunchOptions launch;
  std::string runs = train::kRuns;
  bool one_process = false;
  std::vector<std::string> assignments;

  void add_to(CLI::App& command) {
    command.add_option("settings", assignments, "key=value, over what the recipe says");
    command.add_option(
        "-n,--ranks", launch.ranks,
        "Number of ranks; by default 1, with --hosts all their slots, of a run that goes on those it had");
    command.add_option("--hosts", launch.hosts, "Hosts and the ranks on each, a:4,b:4; needs Open MPI");
    command.add_option("--bind", launch.bind, "Cores of each rank, as of 'lockstep launch'");
    command.add_option("--threads", launch.threads, "Threads of each rank; by default its fair share of the cores");
    command.add_option("--grace", launch.grace_s,
                       "Seconds to save in after SIGTERM until ranks are killed; by default 60");
    command.add_option("--timeout", launch.timeout_s,
                       "Seconds that ranks wait for one that does not come; by default 300, 0: for ever");
    command.add_option("--restarts", launch.restarts,
                       "Go on from the last checkpoint when a rank failed, up to this many times");
    command.add_flag("--one-process", one_process, "Ranks are threads of one process, with a copy of the model each");
    command.add_option("--runs", runs, "Folder of all runs")->capture_default_str();
    rank.add_to(command);
  }
};

/// Starts the ranks of the run of this name where it stopped, and ends the program with their exit code.
void resume_training(TrainOptions& options, const std::string& name);

}  // namespace lockstep::apps
