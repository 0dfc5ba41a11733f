// lockstep/train/run_state.h
//
// What a run remembers from step to step beside its weights: what its optimiser, schedule,
// loss scaler and callbacks know. Checkpoints hold it, and a resumed run gets it back.
#pragma once

#include <memory>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/bucket_optimizer.h"
#include "lockstep/train/callback.h"
#include "lockstep/train/checkpoint.h"
#include "lockstep/train/loss_scaler.h"
#include "lockstep/train/resumption.h"
#include "lockstep/train/schedule.h"

namespace lockstep::train {

struct RunState {
  Schedule& schedule;
  LossScaler* scaler;  // of fp16, else none
  const std::vector<std::shared_ptr<Callback>>& callbacks;
};

/// Adds all of the state to a checkpoint, which may refer to the optimiser.
void note(Checkpoint& checkpoint, const parallel::BucketOptimizer& optimizer, const RunState& state);

// What the checkpoint does not know begins anew. Collectives.

void restore(const RunState& state, const Resumed& resumed, comm::Communicator& group);
void restore(parallel::BucketOptimizer& optimizer, const Resumed& resumed, comm::Communicator& group);

}  // namespace lockstep::train
