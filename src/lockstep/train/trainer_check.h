// lockstep/train/trainer_check.h
//
// Which settings of a Trainer go together.
#pragma once

#include "lockstep/comm/communicator.h"
#include "lockstep/train/trainer.h"

namespace lockstep::train {

/// Fault::Usage on settings that make no sense, alone or beside others.
void check(const TrainerSettings& settings);

/// Fault::Usage on a layer that draws numbers of its own, which would depend on the number of ranks.
void check_exact(const torch::nn::Module& model);

/// Whether the step is fused, see TrainerSettings::fuse_step. Fault::Usage if it is asked for and cannot be.
bool fuses(const TrainerSettings& settings, const torch::nn::Module& model, const comm::Communicator& group);

}  // namespace lockstep::train
