// lockstep/comm/on_ranks.h
//
// For tests: the same body over ranks as threads, or, when the test program itself
// was started under `lockstep launch`, mpirun or srun, over the ranks of that run.
#pragma once

#include <functional>
#include <ostream>
#include <vector>

#include "lockstep/comm/communicator.h"

namespace lockstep::comm::testing {

struct Ranks {
  int count;
  bool private_buffers = false;  // see ThreadRanksOptions
  std::vector<int> hosts = {};   // not empty: rank r is on host hosts[r], over a MemoryWire
  double timeout_s = 30;         // of a collective
};
std::ostream& operator<<(std::ostream& out, const Ranks& ranks);

/// What to instantiate a suite with: the ranks of the run, or a few cases of threads.
std::vector<Ranks> cases();
/// Whether ranks are processes.
bool launched();
void on_ranks(const Ranks& ranks, const std::function<void(Communicator&)>& body);

}  // namespace lockstep::comm::testing
