// lockstep/train/run_length.h
//
// How many steps a run takes, also one that goes on with another batch than it began with.
#pragma once

#include <cstdint>

#include "lockstep/train/resumption.h"
#include "lockstep/train/schedule.h"
#include "lockstep/train/trainer.h"

namespace lockstep::train {

/// `samples` are of an epoch. What is left of the epochs of a resumed run is done with the batch of today.
RunLength length_of(const TrainerSettings& settings, std::int64_t samples, const Resumed& resumed);

/// By how many steps a schedule is ahead of those that were taken: it goes by the share of epochs that is done, as if
/// all steps had been of the batch of today. 0 unless the batch has changed, and of runs that count steps.
std::int64_t schedule_lead(const TrainerSettings& settings, std::int64_t samples, const Resumed& resumed);

}  // namespace lockstep::train
