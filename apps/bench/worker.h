// apps/bench/worker.h
//
// How benchmarks start ranks of ours: a hidden command such as `lockstep bench
// allreduce-worker` under `lockstep launch`, as a program of its own.
#pragma once

#include <string>
#include <vector>

#include "process.h"

namespace lockstep::apps {

/// `lockstep bench WORKER` on so many ranks; threads of each, or 0: its fair share of the cores. Options are appended.
std::vector<std::string> launched(const std::string& worker, int ranks, int threads = 0);

/// Of `bench allreduce-worker`. The items are appended. `variant` says where the buffer lives.
std::vector<std::string> worker_command(const std::string& variant, int ranks);

/// Why the worker failed, in its own words if it had some.
std::string reason_of_worker(const Outcome& outcome);
/// Throws that: Fault::Usage if the use was wrong.
[[noreturn]] void fail_worker(const std::string& what, const Outcome& outcome);

}  // namespace lockstep::apps
