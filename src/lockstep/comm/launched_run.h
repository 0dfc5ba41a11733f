// lockstep/comm/launched_run.h
//
// One attempt of the launcher: the ranks from their start to the end of the last.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lockstep/comm/guardian.h"
#include "lockstep/comm/launcher.h"
#include "lockstep/comm/signal_inbox.h"
#include "lockstep/core/cpu.h"

namespace lockstep::comm {

struct LaunchPlan {
  int ranks = 1;
  bool prefix = false;
  double timeout_s = 0;  // how long ranks that have ended wait for a word of the others; 0: for ever
  double grace_s = 10;   // from SIGTERM until ranks are killed: to finish a step and let go
  std::vector<std::string> command;
  std::vector<CpuSlot> places;  // by rank; no CPUs: not bound
  std::vector<std::pair<std::string, std::string>> environment;
};

/// What ranks find in their environment, on one host or several.
std::vector<std::pair<std::string, std::string>> launch_environment(const LaunchOptions& options, int ranks_on_host);

struct RunOutcome {
  int exit_code = 0;
  bool stopped_by_user = false;
};

RunOutcome run_once(const LaunchPlan& plan, int restart, SignalInbox& signals, Guardian& guardian);

}  // namespace lockstep::comm
