#include "lockstep/comm/thread_ranks.h"

#include <exception>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "lockstep/comm/endpoint.h"
#include "lockstep/comm/host_group.h"
#include "lockstep/comm/segment.h"
#include "lockstep/comm/watchdog.h"

namespace lockstep::comm {

void run_ranks(int ranks, const std::function<void(Communicator&)>& body, const ThreadRanksOptions& options) {
  const auto segment = Segment::for_threads(ranks);
  std::vector<int> everyone(static_cast<std::size_t>(ranks));
  std::iota(everyone.begin(), everyone.end(), 0);

  std::mutex mutex;
  std::exception_ptr first;
  const auto run = [&](int rank) {
    const Watchdog watchdog(segment, {.local_rank = rank});
    const auto record = [&](const std::string& message, int code, Fault fault) {
      {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
      segment->abort(rank, code, fault, message);
    };
    try {
      const auto endpoint = std::make_shared<Endpoint>(
          segment, rank, EndpointOptions{rank, everyone, options.timeout_s, {}, options.private_buffers});
      Communicator world(endpoint, std::make_unique<HostGroup>(endpoint));
      body(world);
    } catch (const Error& error) {
      record(error.what(), error.exit_code(), error.fault());
    } catch (const std::exception& error) {
      record(error.what(), exit_code::kFailed, Fault::Internal);
    }
    segment->status(rank).phase = static_cast<std::uint32_t>(RankPhase::Left);
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(run, rank);
  for (auto& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace lockstep::comm
