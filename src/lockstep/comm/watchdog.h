// lockstep/comm/watchdog.h
//
// A thread that keeps this rank's status page true (alive, in which span) and makes
// sure that the process ends once the run was aborted, even if its own threads
// never look: after a grace the process exits with the first cause's code.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "lockstep/comm/segment.h"

namespace lockstep::comm {

class Watchdog {
 public:
  struct Options {
    int local_rank = 0;
    double grace_s = 3;
    /// Whether to look after the processes of the other local ranks (no launcher does).
    bool watches_peers = false;
    std::vector<int> world_rank_of = {};            // by local rank, for messages about them
    std::function<void(int)> on_overdue = nullptr;  // called with the exit code when the grace is over
  };

  /// Watches the thread that makes it.
  Watchdog(std::shared_ptr<Segment> segment, Options options);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void run();
  void publish_span();
  void look_after_peers();

  std::shared_ptr<Segment> segment_;
  Options options_;
  const std::atomic<const char*>& watched_span_;
  std::vector<int> peer_descriptors_;
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace lockstep::comm
