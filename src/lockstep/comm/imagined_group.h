// lockstep/comm/imagined_group.h
//
// A group of ranks of which only this one is there: its collectives end at once, as if all others had
// brought what this rank brings and nothing came of it. Who wants to know what a rank's part of a model
// takes can try it out in one process, and ask statistics() how much would have travelled.
#pragma once

#include <memory>

#include "lockstep/comm/communicator.h"

namespace lockstep::comm {

/// This is its rank 0. Messages between two ranks are refused: nobody answers.
std::unique_ptr<Communicator> imagine_group(int size);

}  // namespace lockstep::comm
