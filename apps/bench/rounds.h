// apps/bench/rounds.h
//
// Programs that are measured against each other, in rounds: each is started anew once a
// round, so that noise and the placement of processes hit all alike.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <nlohmann/json.hpp>

#include "bench/report.h"
#include "bench/report_files.h"

namespace lockstep::apps {

struct Contestant {
  Participant participant;
  std::vector<std::string> command;
  Workload workload = {};  // without a name where all have the same
  bool running = true;     // false: it failed, and is left out of what follows
  bool may_fail = false;   // of ours: as a peer that failed, instead of ending the benchmark
};

/// Runs it and reads the one JSON object it prints, which has "seconds". Nothing if it is a peer that failed: it runs
/// no more, and the report says why, of `who`. If it is ours, that is an Error, unless it may fail.
std::optional<nlohmann::json> run_contestant(Contestant& contestant, double timeout_s, const std::string& who,
                                             Report& report);

/// How long to go on measuring.
struct Extent {
  int rounds = 15;
  double minutes = 0;  // 0: as long as the rounds take

  /// --rounds and --minutes.
  void add_options(CLI::App& command);
};

/// `run_once` runs the contestant and adds what it measured to the report. The medians so far are on the
/// terminal meanwhile, and in the files after each round: who stops it has what was measured.
void run_rounds(std::vector<Contestant> all, const Extent& extent, Report& report, const ReportFiles& files,
                const std::string& title, const std::function<void(Contestant&)>& run_once);

}  // namespace lockstep::apps
