// lockstep/parallel/memory_use.h
//
// What the memory of a rank that trains is taken by.
#pragma once

#include <cstdint>

namespace lockstep::parallel {

/// In bytes.
struct MemoryUse {
  std::int64_t weights = 0;      // parameters, frozen ones too, and buffers of layers
  std::int64_t gradients = 0;    // that stay until the step is taken
  std::int64_t optimizer = 0;    // what it remembers
  std::int64_t activations = 0;  // at their most, with what layers need while they compute
  std::int64_t buffers = 0;      // of weights and gradients that are on their way, at their most
  std::int64_t staging = 0;      // copies of what a checkpoint holds, while it is written, at their most
  std::int64_t disk = 0;         // weights and states that lie in a file instead (parallel.offload)
  bool disk_is_memory = false;   // which is a part of memory all the same (tmpfs)

  std::int64_t state() const noexcept { return weights + gradients + optimizer; }
  std::int64_t total() const noexcept {
    return state() + activations + buffers + staging + (disk_is_memory ? disk : 0);
  }
};

}  // namespace lockstep::parallel
