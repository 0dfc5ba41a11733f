// lockstep/train/lr_finder.h
//
// Which learning rate to begin with: a short run whose rate grows from step to step until
// the loss, averaged over all ranks and smoothed, diverges. Where it fell fastest is a
// good one. (L. N. Smith, Cyclical learning rates for training neural networks, 2017.)
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/train/trainer.h"

namespace lockstep::train {

struct LrSweep {
  double from = 1e-6;
  double to = 10;
  std::int64_t steps = 100;
};

struct LrPoint {
  double lr = 0;
  double loss = 0;      // of the step
  double smoothed = 0;  // over those before it
};

struct LrFound {
  std::vector<LrPoint> points;
  bool diverged = false;            // before the last rate was reached
  std::optional<double> suggested;  // none: the loss fell at no rate
};

/// Weights are changed, nothing is written; of `settings` it leaves out schedule, callbacks and checkpoints, of
/// `data` validation and test. The same on all ranks. A collective.
LrFound find_lr(comm::Communicator& group, TrainerSettings settings, Task& task, TrainingData data,
                const LrSweep& sweep);

}  // namespace lockstep::train
