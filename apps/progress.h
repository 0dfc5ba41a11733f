// apps/progress.h
//
// How far a long job is: a bar on a terminal, a plain line every few seconds in a log.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace lockstep::apps {

/// "[######..................]" of a share from 0 to 1.
std::string bar_of(double share);

class Progress {
 public:
  /// Of `total` things called `unit`: "samples".
  Progress(std::string what, std::string unit, std::int64_t total);
  /// Clears the bar.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// From any thread.
  void add(std::int64_t count);

 private:
  using Clock = std::chrono::steady_clock;
  void draw(std::int64_t done, Clock::time_point now);

  const std::string what_;
  const std::string unit_;
  const std::int64_t total_;
  const bool terminal_;
  const Clock::time_point begun_ = Clock::now();
  std::atomic<std::int64_t> done_ = 0;
  std::mutex mutex_;
  Clock::time_point drawn_ = begun_;
  bool any_drawn_ = false;
};

}  // namespace lockstep::apps
