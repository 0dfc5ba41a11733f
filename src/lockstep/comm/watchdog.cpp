#include "lockstep/comm/watchdog.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

#include <fmt/format.h>

#include "lockstep/comm/background_thread.h"
#include "lockstep/profile/span.h"

namespace lockstep::comm {
namespace {

constexpr auto kBeat = std::chrono::milliseconds(50);

}  // namespace

Watchdog::Watchdog(std::shared_ptr<Segment> segment, Options options)
    : segment_(std::move(segment)),
      options_(std::move(options)),
      watched_span_(profile::current_span_slot()),
      peer_descriptors_(static_cast<std::size_t>(segment_->ranks()), -1) {
  StatusPage& page = segment_->status(options_.local_rank);
  page.pid = getpid();
  page.beat_ns = monotonic_ns();
  page.phase = static_cast<std::uint32_t>(RankPhase::Joined);
  thread_ = start_background_thread("lockstep-watch", [this] { run(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_one();
  thread_.join();
  for (const int descriptor : peer_descriptors_) {
    if (descriptor >= 0) close(descriptor);
  }
}

void Watchdog::publish_span() {
  StatusPage& page = segment_->status(options_.local_rank);
  page.beat_ns = monotonic_ns();
  const char* span = watched_span_.load(std::memory_order_relaxed);
  if (span == page.span_source.load(std::memory_order_relaxed)) return;
  page.span_source.store(span, std::memory_order_relaxed);
  page.span_since_ns = monotonic_ns();
  page.span.set(span != nullptr ? span : "");
}

void Watchdog::look_after_peers() {
  for (int peer = 0; peer < segment_->ranks(); ++peer) {
    const StatusPage& page = segment_->status(peer);
    if (peer == options_.local_rank || static_cast<RankPhase>(page.phase.load()) != RankPhase::Joined) continue;
    int& descriptor = peer_descriptors_[static_cast<std::size_t>(peer)];
    if (descriptor == -1) {
      descriptor = static_cast<int>(syscall(SYS_pidfd_open, page.pid.load(), 0));
      if (descriptor < 0 && errno != ESRCH) descriptor = -2;  // this kernel cannot tell
      if (descriptor == -1) descriptor = -3;                  // gone already
    }
    bool gone = descriptor == -3;
    if (descriptor >= 0) {
      pollfd state{descriptor, POLLIN, 0};
      gone = poll(&state, 1, 0) > 0;
    }
    if (gone && static_cast<RankPhase>(page.phase.load()) == RankPhase::Joined) {
      segment_->abort(
          -1, exit_code::kFailed, Fault::Comm,
          fmt::format("rank {} (process {}) has died{}", options_.world_rank_of[static_cast<std::size_t>(peer)],
                      page.pid.load(), page.span.empty() ? "" : fmt::format(" in span '{}'", page.span.get())));
    }
  }
}

void Watchdog::run() {
  profile::name_thread("watchdog");
  std::int64_t aborted_since_ns = 0;
  const auto stopped = [&] {
    std::unique_lock lock(mutex_);
    return stop_.wait_for(lock, kBeat, [this] { return stopping_; });
  };
  while (!stopped()) {
    publish_span();
    if (options_.watches_peers) look_after_peers();
    if (!segment_->aborted()) continue;
    if (aborted_since_ns == 0) aborted_since_ns = monotonic_ns();
    if (static_cast<double>(monotonic_ns() - aborted_since_ns) * 1e-9 > options_.grace_s && options_.on_overdue) {
      options_.on_overdue(segment_->header().abort.exit_code);
    }
  }
}

}  // namespace lockstep::comm
