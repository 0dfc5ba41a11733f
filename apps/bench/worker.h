// apps/bench/worker.h
//
// How benchmarks start ranks of ours: `lockstep bench allreduce-worker` under
// `lockstep launch`, as a program of its own.
#pragma once

#include <string>
#include <vector>

#include "process.h"

namespace lockstep::apps {

/// The items are appended. `variant` says where the buffer lives.
std::vector<std::string> worker_command(const std::string& variant, int ranks);

/// Throws what the worker said before it failed: Fault::Usage if the use was wrong.
[[noreturn]] void fail_worker(const std::string& what, const Outcome& outcome);

}  // namespace lockstep::apps
