// lockstep/comm/thread_ranks.h
//
// Ranks as threads of one process, so that a debugger and the sanitizers see all of
// them. The back-end `threads`.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/segment.h"

namespace lockstep::comm {

struct ThreadRanksOptions {
  double timeout_s = 300;
  /// Stages tensors through windows, as between processes, instead of reading them directly.
  bool private_buffers = false;
};

/// Runs `body` once per rank and returns when all have ended. The first exception of
/// any rank releases the others and is thrown here.
void run_ranks(int ranks, const std::function<void(Communicator&)>& body, const ThreadRanksOptions& options = {});

/// Where a rank that is a thread lives.
struct ThreadPlace {
  std::shared_ptr<Segment> segment;
  int local_rank;
};
/// What run_ranks() stands on: `body` once per place on a watched thread of its own; the first
/// exception aborts the run on all segments and is thrown here.
void run_as_threads(const std::vector<ThreadPlace>& places, const std::function<void(int rank)>& body);

}  // namespace lockstep::comm
