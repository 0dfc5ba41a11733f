// lockstep/train/gradients.h
//
// What a step asks of the gradients of all ranks, and does to them, before the optimiser
// takes them.
#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/parallel/data_parallel.h"

namespace lockstep::train {

/// Over all parameters that are trained.
double gradient_norm(const parallel::DataParallel& engine);

struct Clipping {
  double norm = 0;   // above 0: gradients of a larger norm are scaled down to it
  double value = 0;  // above 0: no element of a gradient is larger
};

/// Clips gradients that are to be multiplied by `scale` first. Returns by what they are to be multiplied now.
double clip(const parallel::DataParallel& engine, const Clipping& clipping, double scale);

/// Whether all elements of the buckets' weights, or gradients, are numbers.
bool all_finite(const parallel::DataParallel& engine, at::Tensor parallel::Bucket::* tensor);

/// Of parameters that backward did not reach in the first step.
void warn_of_unused(const parallel::DataParallel& engine);

}  // namespace lockstep::train
