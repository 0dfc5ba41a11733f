// apps/train/train_view.h
//
// What a user sees of a run: a bar on a terminal, plain lines in a log.
#pragma once

#include <chrono>
#include <string>

#include "lockstep/train/observer.h"

namespace lockstep::apps {

class TrainView final : public train::Observer {
 public:
  /// So many characters wide a terminal; 0: none.
  explicit TrainView(int width) : width_(width) {}
  void on_start(const train::RunInfo& info) override;
  void on_step(const train::StepReport& report) override;
  void on_evaluation(const train::Evaluation& evaluation) override;
  void on_end() override;

 private:
  using Clock = std::chrono::steady_clock;
  void say(const std::string& line);

  bool terminal() const noexcept { return width_ > 0; }

  int width_;
  train::RunInfo info_;
  train::StepReport last_;
  Clock::time_point drawn_ = {};
  std::int64_t samples_ = 0;  // so far
  double loss_ = 0;           // smoothed, as is the next
  double imbalance_ = 1;
};

}  // namespace lockstep::apps
