// lockstep/core/cgroup.h
//
// The CPU time that control groups grant this process, version 1 or 2.
#pragma once

#include <optional>
#include <string>

namespace lockstep {

/// CPUs' worth of time, the tightest of this process's group and all groups around
/// it; nothing if unlimited. `root` stands before /proc and the cgroup mounts (for tests).
std::optional<double> cgroup_cpu_limit(const std::string& root = "");

}  // namespace lockstep
