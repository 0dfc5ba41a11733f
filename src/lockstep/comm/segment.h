// lockstep/comm/segment.h
//
// The memory that the ranks of one host share: a header with the first cause of
// an abort, a status page and a doorbell per rank, the world's channel, and one
// arena per rank. It is a single sparse memfd, mapped whole by every rank: it has
// no name, so nothing can be left behind, and it is not bounded by /dev/shm. For
// ranks that are threads it is plain memory of the process. All zero is a valid
// start.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/error.h"
#include "lockstep/core/handle.h"

namespace lockstep::comm {

/// Two lines of 64 bytes: processors fetch lines in pairs.
inline constexpr std::size_t kLine = 128;

inline constexpr int kMostRanksOfHost = 1024;

/// The first Error of any rank of the host; whoever sets it wins.
struct AbortRecord {
  std::atomic<std::uint32_t> state;  // 0 none, 1 being written, 2 readable
  std::int32_t rank;                 // world rank, -1: not a rank (the launcher, a lost host)
  std::int32_t exit_code;
  std::int32_t fault;
  char message[3072];
};

/// A short text that one rank changes while others read it. It may be torn then: it is
/// for people.
template <std::size_t kBytes>
class StatusText {
 public:
  void set(std::string_view text) noexcept {
    for (std::size_t i = 0; i < kBytes; ++i)
      characters_[i].store(i < text.size() && i + 1 < kBytes ? text[i] : '\0', std::memory_order_relaxed);
  }
  void clear() noexcept { characters_[0].store('\0', std::memory_order_relaxed); }
  bool empty() const noexcept { return characters_[0].load(std::memory_order_relaxed) == '\0'; }
  std::string get() const {
    std::string text;
    for (const auto& character : characters_) {
      const char value = character.load(std::memory_order_relaxed);
      if (value == '\0') break;
      text += value;
    }
    return text;
  }

 private:
  std::array<std::atomic<char>, kBytes> characters_;
};

/// What a rank tells the others about itself. Texts may be torn while they change:
/// they are for people.
struct alignas(kLine) StatusPage {
  std::atomic<std::int32_t> pid;
  std::atomic<std::uint32_t> phase;   // RankPhase
  std::atomic<std::int64_t> beat_ns;  // when the rank's watchdog last ran, CLOCK_MONOTONIC
  std::atomic<std::int64_t> span_since_ns;
  std::atomic<const char*> span_source;  // the rank's own pointer, to see that it changed
  StatusText<96> span;
  StatusText<192> waiting_for;  // the collective the rank waits in; empty if none
};
enum class RankPhase : std::uint32_t { Starting, Joined, Left };

/// "in span 'load batch' for 3.1 s", as the page says; that it has ended or does not run comes first.
std::string describe_place(const StatusPage& page, std::int64_t now_ns);
/// Whether the rank waits in a collective, as far as anyone can tell.
bool waits(const StatusPage& page);
/// Whether the rank's process has not run for so long that it must be stopped or starved.
bool seems_stopped(const StatusPage& page, std::int64_t now_ns);
/// The first cause as the user reads it: with the rank in front unless it starts with it.
std::string describe_cause(const AbortRecord& record);

struct alignas(kLine) Doorbell {
  std::atomic<std::uint32_t> rings;
  std::atomic<std::uint32_t> sleeping;
};

struct SegmentHeader {
  std::uint64_t magic;
  char version[64];
  std::int32_t ranks;
  std::int32_t usable_cpus;  // by all ranks together; each may be bound to fewer
  std::uint64_t arena_bytes;
  std::uint64_t arenas_at;
  std::uint64_t total_bytes;
  char calibration[512];  // JSON, the same table for all ranks
  AbortRecord abort;
  alignas(kLine) std::atomic<std::uint32_t> sleepers;
  std::atomic<std::uint32_t> ranks_say_cause;  // no launcher does: whoever sets the first cause says it
};

class Segment {
 public:
  /// A new segment for `ranks` processes, as a file that children inherit.
  static FileDescriptor create(int ranks);
  /// Maps the segment behind `descriptor`. Fails if another version made it.
  static std::shared_ptr<Segment> attach(int descriptor);
  /// Plain memory for ranks that are threads of this process.
  static std::shared_ptr<Segment> for_threads(int ranks);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  int ranks() const noexcept { return header().ranks; }
  bool threads() const noexcept { return threads_; }
  SegmentHeader& header() const noexcept { return *reinterpret_cast<SegmentHeader*>(base_); }
  StatusPage& status(int rank) const noexcept { return status_[rank]; }
  Doorbell& doorbell(int rank) const noexcept { return doorbells_[rank]; }
  /// The channel of the world communicator, channel_bytes(ranks()) long.
  std::byte* world_channel() const noexcept { return world_channel_; }
  std::byte* arena(int rank) const noexcept {
    return base_ + header().arenas_at + header().arena_bytes * static_cast<std::size_t>(rank);
  }
  std::size_t arena_bytes() const noexcept { return header().arena_bytes; }
  std::byte* base() const noexcept { return base_; }
  std::size_t bytes() const noexcept { return bytes_; }

  /// Sets the first cause unless there is one already, and wakes every sleeper. `said`: the
  /// user has read it already, another host said it.
  void abort(int rank, int exit_code, Fault fault, const std::string& message, bool said = false) const noexcept;
  bool aborted() const noexcept { return header().abort.state.load(std::memory_order_acquire) == 2; }
  /// Throws the first cause. Requires aborted().
  [[noreturn]] void throw_abort() const;

  /// Wakes the ranks that sleep; call after making visible what they may wait for.
  /// The load here may overtake the store before it, but a fence would wait for every
  /// cache line just sent. So whoever goes to sleep pays instead, see Sleep.
  void notify() const noexcept {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (header().sleepers.load(std::memory_order_relaxed) != 0) ring_sleepers();
  }
  /// Sleeps until someone rings `rank` or `timeout_ns` has passed; returns at once
  /// if `rings` is no longer the doorbell's count. See Sleep for the protocol.
  void sleep(int rank, std::uint32_t rings, std::int64_t timeout_ns) const noexcept;
  void ring(int rank) const noexcept;
  /// How often `rank` was rung.
  std::uint32_t rings(int rank) const noexcept { return doorbell(rank).rings.load(std::memory_order_seq_cst); }
  /// Keeps `memory` as long as the segment; for ranks as threads, where the owner may end first.
  void keep(std::shared_ptr<void> memory);

 private:
  Segment(std::byte* base, std::size_t bytes, int ranks, bool threads);
  void ring_sleepers() const noexcept;

  std::byte* base_;
  std::size_t bytes_;
  bool threads_;
  StatusPage* status_;
  Doorbell* doorbells_;
  std::byte* world_channel_;
  std::mutex kept_mutex_;
  std::vector<std::shared_ptr<void>> kept_;
};

/// Announces that a rank is about to sleep. Whoever writes later than that rings. A writer
/// that looked just before the announcement has its data in its store buffer still: it
/// arrives within microseconds, so the sleeper looks again after kStoresArrive_ns.
class Sleep {
 public:
  /// `rings_seen`: Segment::rings() when the caller last looked at what it waits for.
  Sleep(const Segment& segment, int rank, std::uint32_t rings_seen) noexcept;
  ~Sleep();
  Sleep(const Sleep&) = delete;
  Sleep& operator=(const Sleep&) = delete;

  /// Returns once `ready()` holds, someone has rung, or about `timeout_ns` has passed; also
  /// for no reason, as sleeps do.
  template <class Ready>
  void wait(const Ready& ready, std::int64_t timeout_ns) const {
    if (ready()) return;
    const std::int64_t first = std::min(timeout_ns, kStoresArrive_ns);
    segment_.sleep(rank_, rings_, first);
    if (timeout_ns > first && !ready()) segment_.sleep(rank_, rings_, timeout_ns - first);
  }

 private:
  static constexpr std::int64_t kStoresArrive_ns = 50'000;

  const Segment& segment_;
  int rank_;
  std::uint32_t rings_;
};

std::int64_t monotonic_ns() noexcept;

}  // namespace lockstep::comm
