#include "lockstep/parallel/waiting.h"

#include "lockstep/core/stopwatch.h"

namespace lockstep::parallel {
namespace {

thread_local double waited_s = 0;

}  // namespace

void wait_for_ranks(const std::function<comm::Work()>& collective) {
  const Stopwatch watch;
  collective().wait();
  waited_s += watch.seconds();
}

double waited_for_ranks_s() noexcept { return waited_s; }

}  // namespace lockstep::parallel
