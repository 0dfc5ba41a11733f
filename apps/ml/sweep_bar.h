// apps/ml/sweep_bar.h
//
// Shows how far a pass over rows is, once it lasts: a bar on a terminal, a line now and then
// in a log.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>

#include "lockstep/ml/sweep.h"
#include "progress.h"

namespace lockstep::apps {

class SweepBar final : public ml::SweepObserver {
 public:
  void begin(const char* name, std::int64_t rows) override;
  void add(std::int64_t rows) override;
  void end() override;

 private:
  using Clock = std::chrono::steady_clock;

  std::mutex mutex_;
  std::optional<Progress> bar_;
  Clock::time_point begun_;
  std::int64_t waiting_ = 0;  // rows that the bar was not told of
};

}  // namespace lockstep::apps
