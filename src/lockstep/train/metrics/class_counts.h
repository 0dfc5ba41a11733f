// lockstep/train/metrics/class_counts.h
//
// How often each class is taken for each other: what metrics of classes are made of.
#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/train/task.h"

namespace lockstep::train {

/// [classes * classes] in float64: targets by guesses, as one row after another.
at::Tensor class_counts(const Score& score);
/// [classes, classes] of what class_counts() gave.
at::Tensor as_matrix(const at::Tensor& counts);

}  // namespace lockstep::train
