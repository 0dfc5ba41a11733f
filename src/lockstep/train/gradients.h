// lockstep/train/gradients.h
//
// What a step asks of the gradients of all ranks, and does to them, before the optimiser
// takes them.
#pragma once

#include "lockstep/parallel/gradient_engine.h"
#include "lockstep/train/model_parts.h"

namespace lockstep::train {

struct Clipping {
  double norm = 0;   // above 0: gradients of a larger norm are scaled down to it
  double value = 0;  // above 0: no element of a gradient is larger
};

/// Clips gradients that are to be multiplied by `scale` first. Returns by what they are to be multiplied now.
double clip_(const ModelParts& model, const Clipping& clipping, double scale);

/// Of parameters that backward did not reach in the first step.
void warn_of_unused(const parallel::GradientEngine& engine);

}  // namespace lockstep::train
