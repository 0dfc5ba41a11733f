// lockstep/train/local_average.h
//
// Local SGD: ranks step on their own, and now and then their weights become one. Each counts
// by what it has seen since, so that uneven ranks, or one without samples, stay right.
#pragma once

#include "lockstep/parallel/bucket_optimizer.h"
#include "lockstep/parallel/data_parallel.h"

namespace lockstep::train {

class LocalAverage {
 public:
  /// Samples, or tokens, of a step: of this rank and of all.
  void note_step(double own, double all);
  /// Ranks may have different weights.
  bool due() const noexcept { return all_ > 0; }
  /// Makes the weights one if they are not, and with `states` what the optimiser remembers. A collective.
  void take(parallel::DataParallel& engine, parallel::BucketOptimizer& optimizer, bool states);

 private:
  double own_ = 0;  // since the last time
  double all_ = 0;
};

}  // namespace lockstep::train
