// apps/bench/step_run.h
//
// What benchmarks of training steps have in common, and the calling convention of every program that trains, ours and
// the peers': --warm-up and --steps on the command line, one line of JSON on standard output, {"seconds": [… every
// timed step, its slowest rank …], "samples": … of a step}. It may add "exposed", the share of time that ranks waited
// for gradients, "losses" of all steps until the last one that is timed, and "pss_bytes".
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <nlohmann/json_fwd.hpp>

#include "bench/report.h"
#include "bench/report_files.h"
#include "bench/rounds.h"

namespace lockstep::apps {

/// How many steps a program trains.
struct StepCount {
  int warm_up = 3;
  int timed = 5;

  /// --warm-up and --steps.
  void add_options(CLI::App& command);
  std::vector<std::string> arguments() const;
};

struct StepOptions {
  std::vector<int> ranks;
  int threads = 1;
  Extent extent = {};
  StepCount count = {};
  std::vector<std::string> settings = {};  // of our recipes
  ReportFiles files = {};

  void add_options(CLI::App& command);
  /// "time of a training step, 1 thread a rank"
  std::string title() const;
};

/// Ours: the hidden command `worker`.
std::vector<std::string> step_worker_command(const std::string& worker, int ranks, const StepOptions& options);
/// A peer's: a script of the peers' folder.
std::vector<std::string> step_peer_command(const std::string& script, int ranks, const StepOptions& options);

/// Adds what the contestant measured to the report, and returns it; nothing if it failed, which is in the report then.
std::optional<nlohmann::json> run_steps(Contestant& contestant, Report& report);

}  // namespace lockstep::apps
