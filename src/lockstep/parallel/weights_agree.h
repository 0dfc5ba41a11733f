// lockstep/parallel/weights_agree.h
//
// Whether ranks that are to have the same weights have them.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/communicator.h"

namespace lockstep::parallel {

/// Fault::Comm naming the ranks whose `weights` are not those of most. A collective.
void check_weights_agree(const std::vector<at::Tensor>& weights, comm::Communicator& group);
/// The same of weights that have been hashed.
void check_weights_agree(const std::string& hash, comm::Communicator& group);

}  // namespace lockstep::parallel
