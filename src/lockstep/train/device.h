// lockstep/train/device.h
//
// Where a model computes: "cpu", "cuda" (of this host's GPUs the ranks take turns) or "cuda:1".
// torch's CUDA libraries are loaded when the first GPU is asked for, so that one program
// serves machines with and without.
#pragma once

#include <string>

#include <c10/core/Device.h>

#include "lockstep/data/batch.h"

namespace torch::nn {
class Module;
}

namespace lockstep::train {

/// Of the rank with this number. Fault::Usage if there is no such device here, saying why. A GPU is found only if
/// torch has not been used before without one: its first use decides.
c10::Device device_named(const std::string& name, int rank);

void move_(torch::nn::Module& model, c10::Device device);
void move_(data::Batch& batch, c10::Device device);

}  // namespace lockstep::train
