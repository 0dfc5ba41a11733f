// lockstep/parallel/waiting.h
//
// How long forwards and backwards wait for other ranks within a step: in layers that are split over
// ranks, and between stages of a pipeline. Counted by thread: where backward has threads of its own,
// as on a GPU, theirs is not in the sum of the thread that drives the model.
#pragma once

#include <functional>

#include "lockstep/comm/work.h"

namespace lockstep::parallel {

/// Until it is done; that a small one is done within the call counts, too.
void wait_for_ranks(const std::function<comm::Work()>& collective);

/// Seconds that the calling thread has waited so, since it began.
double waited_for_ranks_s() noexcept;

}  // namespace lockstep::parallel
