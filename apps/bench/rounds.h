// apps/bench/rounds.h
//
// Programs that are measured against each other, in rounds: each is started anew once a
// round, so that noise and the placement of processes hit all alike.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/report.h"

namespace lockstep::apps {

struct Contestant {
  Participant participant;
  std::vector<std::string> command;
  std::string workload = {};  // "" where all have the same
  bool running = true;        // false: it failed, and is left out of what follows
};

/// `run_once` runs the contestant and adds what it measured to the report. The medians so far are on
/// the terminal meanwhile.
void run_rounds(std::vector<Contestant> all, int rounds, Report& report,
                const std::function<void(Contestant&)>& run_once);

}  // namespace lockstep::apps
