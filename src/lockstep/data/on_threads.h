// lockstep/data/on_threads.h
//
// Work on every item of a range by all the cores this process may use.
#pragma once

#include <cstdint>
#include <functional>

#include "lockstep/data/dataset.h"

namespace lockstep::data {

/// Calls work(item, sample) for every item of [0, count), each thread with a Sample of its own whose
/// scratch is cleared before each call. The first exception stops all and is thrown. A thread takes
/// `at_once` neighbouring items.
void on_threads(std::int64_t count, const std::function<void(std::int64_t item, Sample& sample)>& work,
                std::int64_t at_once = 64);

/// Reads every sample once, in no certain order.
void on_samples(const Dataset& dataset, const std::function<void(std::int64_t index, const Sample& sample)>& work);

}  // namespace lockstep::data
