// lockstep/parallel/cross_entropy.h
//
// The cross entropy of classes, or words, whose scores may be split over ranks: no rank then
// ever has the scores of all classes.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/communicator.h"

namespace lockstep::parallel {

/// Which scores a rank has; by default those of all classes.
struct ClassSplit {
  comm::Communicator* group = nullptr;  // over which they are split
  std::int64_t first = 0;               // class of this rank's first score
  std::int64_t classes = 0;             // on all ranks
};

/// The sum over rows. `scores` are [rows, this rank's classes], `targets` [rows] of int64, each from 0 to below the
/// number of classes. With `smoothing`, that share of the target is spread evenly over all classes. A collective if
/// scores are split.
at::Tensor cross_entropy_sum(const at::Tensor& scores, const at::Tensor& targets, double smoothing,
                             const ClassSplit& split);

/// Scores of all classes, for those who cannot do with less. A collective if they are split.
at::Tensor gather_scores(const at::Tensor& scores, const ClassSplit& split);

}  // namespace lockstep::parallel
