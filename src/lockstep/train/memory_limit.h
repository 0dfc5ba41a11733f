// lockstep/train/memory_limit.h
//
// How much memory a rank may take: what control groups grant this process, or the host has, divided by the
// ranks of a host; and how much of that is left for what it trains.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "lockstep/core/cgroup.h"
#include "lockstep/core/cpu.h"
#include "lockstep/core/memory_of_process.h"

namespace lockstep::train {

/// Buffers that libraries make once they compute, such as MKL's, of which a program that has just started has none.
inline constexpr std::int64_t kKeptByLibraries = 64 << 20;

struct MemoryLimit {
  std::int64_t bytes = 0;  // of all ranks of a host
  std::string of;          // whose limit it is
  int ranks_of_host = 1;
  std::int64_t program_bytes = 0;  // of a rank beside what it trains

  std::int64_t of_rank() const noexcept { return bytes / std::max(1, ranks_of_host); }
  std::int64_t room() const noexcept { return std::max<std::int64_t>(1, of_rank() - program_bytes); }
};

/// Of ranks like this process, as it is now.
inline MemoryLimit memory_limit(int ranks_of_host) {
  const std::int64_t program = proportional_set_size() + kKeptByLibraries;
  const std::int64_t host = machine().memory_bytes;
  const auto granted = cgroup_memory_limit();
  if (granted && (host == 0 || *granted < host)) return {*granted, "the control group grants", ranks_of_host, program};
  return {host, "the host has", ranks_of_host, program};
}

}  // namespace lockstep::train
