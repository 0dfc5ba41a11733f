#include "lockstep/train/local_average.h"

namespace lockstep::train {

void LocalAverage::note_step(double own, double all) {
  own_ += own;
  all_ += all;
}

void LocalAverage::take(parallel::DataParallel& engine, parallel::BucketOptimizer& optimizer, bool states) {
  if (!due()) return;
  const double share = own_ / all_;
  engine.average_weights(share);
  if (states) optimizer.average_states(share);
  own_ = all_ = 0;
}

}  // namespace lockstep::train
