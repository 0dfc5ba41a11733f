// lockstep/core/cgroup.h
//
// The CPU time and memory that control groups grant this process, version 1 or 2.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

/// CPUs' worth of time, the tightest of this process's group and all groups around
/// it; nothing if unlimited. `root` stands before /proc and the cgroup mounts (for tests).
std::optional<double> cgroup_cpu_limit(const std::string& root = "");
/// Bytes, in the same way.
std::optional<std::int64_t> cgroup_memory_limit(const std::string& root = "");

}  // namespace lockstep
