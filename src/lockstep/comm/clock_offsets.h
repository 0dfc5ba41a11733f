// lockstep/comm/clock_offsets.h
//
// How far apart the clocks of the ranks are, so that a trace of several hosts has one time.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "lockstep/comm/communicator.h"

namespace lockstep::comm {

/// Nanoseconds of CLOCK_REALTIME, the time of a trace's events.
std::int64_t realtime_ns() noexcept;

/// By rank: what to add to its `clock` to get that of rank 0. All ranks call it. Each asks rank
/// 0 for the time a few times; the answer that came soonest counts, and is wrong by at most half
/// the time that took.
std::vector<std::int64_t> clock_offsets(Communicator& group, const std::function<std::int64_t()>& clock = realtime_ns);

}  // namespace lockstep::comm
