// lockstep/comm/launcher.h
//
// Starts a program once per rank and sees the run to its end: passes output and
// signals on, and when one rank fails releases the others at once, says the first
// cause once, and lets nothing survive, not even when it is killed itself. The
// ranks of one host share a Segment; for several hosts mpirun takes over.
//
// Call it from the only thread of a process: it takes over the process's signals
// until it returns.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep::comm {

struct LaunchOptions {
  std::optional<int> ranks;          // with hosts: all their slots if not set
  std::string hosts;                 // "a:4,b:4"; empty: this host
  std::vector<std::string> starter;  // with hosts: goes before the command and calls become_program()
  std::string bind;                  // "core", "numa" or "none"; empty: core if there are enough, else none
  std::optional<int> threads;        // of each rank; not set: its fair share, or what OMP_NUM_THREADS says
  std::optional<double> timeout_s;   // of a collective, 0: never; not set: what LOCKSTEP_TIMEOUT says
  std::optional<double> grace_s;     // from SIGTERM or SIGHUP until ranks are killed, on one host; not set: 10
  int restarts = 0;                  // how often a failed run is started again
  bool prefix = false;               // "[rank] " in front of every line
  std::vector<std::string> command;
};

/// Returns when every rank has ended. The exit code is that of the first cause, 128 + signal
/// if a rank was killed. Fails with Fault::Usage on options that cannot be met and on a program
/// that cannot be run.
int launch(const LaunchOptions& options);

}  // namespace lockstep::comm
