// apps/bench/rounds.h
//
// Programs that are measured against each other, in rounds: each is started anew once a
// round, so that noise and the placement of processes hit all alike.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/report.h"

namespace lockstep::apps {

struct Contestant {
  Participant participant;
  std::vector<std::string> command;
  Workload workload = {};  // without a name where all have the same
  bool running = true;     // false: it failed, and is left out of what follows
};

/// Runs it and reads the one JSON object it prints, which has "seconds". Nothing if it is a peer that failed: it runs
/// no more, and the report says why, of `who`. If it is ours, that is an Error.
std::optional<nlohmann::json> run_contestant(Contestant& contestant, double timeout_s, const std::string& who,
                                             Report& report);

/// `run_once` runs the contestant and adds what it measured to the report. The medians so far are on
/// the terminal meanwhile.
void run_rounds(std::vector<Contestant> all, int rounds, Report& report,
                const std::function<void(Contestant&)>& run_once);

}  // namespace lockstep::apps
