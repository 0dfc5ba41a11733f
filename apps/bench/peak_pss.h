// apps/bench/peak_pss.h
//
// Memory of this process as benchmarks compare it: its share of what it has mapped (PSS). What ranks map of each other
// would count several times otherwise.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace lockstep::apps {

/// The most there was while it lived, seen every few milliseconds: looking costs time, so not while steps are timed.
class PeakPss {
 public:
  PeakPss();
  ~PeakPss();
  PeakPss(const PeakPss&) = delete;
  PeakPss& operator=(const PeakPss&) = delete;

  std::int64_t bytes() const noexcept { return peak_; }

 private:
  std::atomic<std::int64_t> peak_;
  std::atomic<bool> done_ = false;
  std::thread looker_;
};

}  // namespace lockstep::apps
