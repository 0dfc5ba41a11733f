// lockstep/core/peak_memory.h
//
// The most memory that this process had for some time.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace lockstep {

/// Seen every few milliseconds while it lives. Looking costs time, so not while steps are timed.
class PeakMemory {
 public:
  PeakMemory();
  ~PeakMemory();
  PeakMemory(const PeakMemory&) = delete;
  PeakMemory& operator=(const PeakMemory&) = delete;

  /// As it is compared: the process's share of what it has mapped (PSS). What ranks map of each other would count
  /// several times otherwise.
  std::int64_t proportional() const noexcept { return proportional_; }
  /// Of its own alone, no file's and not shared.
  std::int64_t anonymous() const noexcept { return anonymous_; }

 private:
  void look();

  std::atomic<std::int64_t> proportional_ = 0, anonymous_ = 0;
  std::atomic<bool> done_ = false;
  std::thread looker_;
};

}  // namespace lockstep
