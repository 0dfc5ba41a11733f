// lockstep/core/on_threads.h
//
// Work on every item of a range by several threads.
#pragma once

#include <cstdint>
#include <functional>

namespace lockstep {

/// Calls work(first, last, thread) for neighbouring items until those of [0, count) are done, up to `at_once` of them
/// in one call; `thread` is from 0 to `threads` - 1. The first exception stops all and is thrown. The calling thread is
/// one of them.
void on_threads(int threads, std::int64_t count, std::int64_t at_once,
                const std::function<void(std::int64_t first, std::int64_t last, int thread)>& work);

}  // namespace lockstep
