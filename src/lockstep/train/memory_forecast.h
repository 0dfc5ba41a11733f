// lockstep/train/memory_forecast.h
//
// What memory a run will take, by kind, of what its links cost and how it is laid out: weights, gradients
// and states by counting, buffers as ShardedParallel takes them, activations of what the probe has measured.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/parallel/link_costs.h"
#include "lockstep/parallel/memory_use.h"
#include "lockstep/train/layout.h"

namespace lockstep::train {

/// Of a rank of each stage.
std::vector<parallel::MemoryUse> forecast(const parallel::ModelCosts& costs, const Layout& layout,
                                          const RunFacts& facts);
/// Of the one that takes most in all.
parallel::MemoryUse worst(const std::vector<parallel::MemoryUse>& stages);
/// What must be there for it, with holes between tensors that come and go: measured were 5 to 16 % beside what
/// libraries keep.
std::int64_t needed_bytes(const parallel::MemoryUse& use);
/// The most of each kind, as a MemoryReport has it.
parallel::MemoryUse most_of_each(const std::vector<parallel::MemoryUse>& stages);

}  // namespace lockstep::train
