// lockstep/data/on_threads.h
//
// Work on every item of a range by all the cores this process may use.
#pragma once

#include <cstdint>
#include <functional>

#include "lockstep/data/sample.h"

namespace lockstep::data {

/// Calls work(item, scratch) for every item of [0, count), each thread with its own scratch,
/// cleared before each call. The first exception stops all and is thrown.
void on_threads(std::int64_t count, const std::function<void(std::int64_t item, Scratch& scratch)>& work);

}  // namespace lockstep::data
