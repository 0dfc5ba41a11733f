// lockstep/core/stopwatch.h
#pragma once

#include <chrono>

namespace lockstep {

/// Runs from when it is made.
class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_ = Clock::now();
};

}  // namespace lockstep
