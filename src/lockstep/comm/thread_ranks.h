// lockstep/comm/thread_ranks.h
//
// Ranks as threads of one process, so that a debugger and the sanitizers see all of
// them. The back-end `threads`.
#pragma once

#include <functional>

#include "lockstep/comm/communicator.h"

namespace lockstep::comm {

struct ThreadRanksOptions {
  double timeout_s = 300;
  /// Stages tensors through windows, as between processes, instead of reading them directly.
  bool private_buffers = false;
};

/// Runs `body` once per rank and returns when all have ended. The first exception of
/// any rank releases the others and is thrown here.
void run_ranks(int ranks, const std::function<void(Communicator&)>& body, const ThreadRanksOptions& options = {});

}  // namespace lockstep::comm
