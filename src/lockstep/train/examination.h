// lockstep/train/examination.h
//
// Whose fault a bad step is. The sum over ranks hides whose gradient was no number, so
// every rank works through its part once more, by itself, and looks at its own gradients.
// That takes as long as a step and happens only when one is bad.
#pragma once

#include <functional>
#include <string>

#include "lockstep/comm/communicator.h"
#include "lockstep/data/batch.h"
#include "lockstep/parallel/gradient_engine.h"
#include "lockstep/train/shards.h"

namespace lockstep::train {

struct BadStep {
  const data::Batch& batch;
  const Shards& shards;
  bool exact = false;         // shards are other than ranks
  double gradient_scale = 1;  // by which gradients are multiplied before they are taken
  /// Forward and backward of this rank's shard `number`, reducing nothing. Returns its loss.
  std::function<double(int number)> work_through;
};

/// Names the rank, the layer and the samples, the same on all ranks. Gradients are dropped. A collective.
std::string examine(const BadStep& step, parallel::GradientEngine& engine, comm::Communicator& group);

}  // namespace lockstep::train
