#include "lockstep/comm/thread_ranks.h"

#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "lockstep/comm/all_ranks.h"
#include "lockstep/comm/endpoint.h"
#include "lockstep/comm/host_group.h"
#include "lockstep/comm/segment.h"
#include "lockstep/comm/watchdog.h"
#include "lockstep/core/math_kernels.h"

namespace lockstep::comm {

void run_as_threads(const std::vector<ThreadPlace>& places, const std::function<void(int rank)>& body) {
  choose_math_kernels();
  std::mutex mutex;
  std::exception_ptr first;
  const auto run = [&](int rank) {
    const ThreadPlace& here = places[static_cast<std::size_t>(rank)];
    const Watchdog watchdog(here.segment, {.local_rank = here.local_rank});
    try {
      body(rank);
    } catch (...) {
      const Error error = current_error();
      const std::lock_guard lock(mutex);
      if (!first) first = std::current_exception();
      for (const auto& place : places) place.segment->abort(rank, error.exit_code(), error.fault(), error.what());
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < places.size(); ++rank) threads.emplace_back(run, static_cast<int>(rank));
  for (auto& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

void run_ranks(int ranks, const std::function<void(Communicator&)>& body, const ThreadRanksOptions& options) {
  const auto segment = Segment::for_threads(ranks);
  const std::vector<int> everyone = all_ranks(ranks);
  std::vector<ThreadPlace> places;
  for (const int rank : everyone) places.push_back({segment, rank});
  run_as_threads(places, [&](int rank) {
    const auto endpoint = std::make_shared<Endpoint>(
        segment, rank, EndpointOptions{rank, everyone, options.timeout_s, {}, options.private_buffers});
    {
      Communicator world(endpoint, std::make_unique<HostGroup>(endpoint));
      body(world);
    }
    segment->status(rank).phase = static_cast<std::uint32_t>(RankPhase::Left);
  });
}

}  // namespace lockstep::comm
