// lockstep/train/device.h
//
// Where a model computes: "cpu", "cuda" (of this host's GPUs the ranks take turns) or "cuda:1".
// torch's CUDA libraries are loaded when the first GPU is asked for, so that one program
// serves machines with and without.
#pragma once

#include <string>

#include <c10/core/Device.h>

#include "lockstep/comm/communicator.h"
#include "lockstep/data/batch.h"

namespace torch::nn {
class Module;
}

namespace lockstep::train {

/// The `turn`-th of them in turn, where the name has no number. Fault::Usage if there is no such device here, saying
/// why. A GPU is found only if torch has not been used before without one: its first use decides.
c10::Device device_named(const std::string& name, int turn);
/// This rank's: the ranks of a host take turns. A collective if it is a GPU.
c10::Device device_of(const std::string& name, comm::Communicator& group);

void move_(torch::nn::Module& model, c10::Device device);
/// All but the weights that are trained.
void move_untrained_(torch::nn::Module& model, c10::Device device);
void move_(data::Batch& batch, c10::Device device);

}  // namespace lockstep::train
