// lockstep/parallel/layers/max_pool.h
//
// The greatest of every 2 x 2 pixels. Values and gradients are those of at::max_pool2d to the
// bit, which takes its pixels one by one where this works on whole vectors of them.
#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep::parallel {

/// [sample, channel, height, width] to [sample, channel, height / 2, width / 2], rounded down.
at::Tensor max_pool_2x2(const at::Tensor& images);

}  // namespace lockstep::parallel
