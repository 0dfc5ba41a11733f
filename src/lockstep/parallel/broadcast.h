// lockstep/parallel/broadcast.h
//
// Tensors on any device become those of one rank.
#pragma once

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/parameter.h"

namespace lockstep::parallel {

/// `what` names them in messages and traces.
void broadcast_(const Parameters& tensors, comm::Communicator& group, int root, const char* what);

}  // namespace lockstep::parallel
