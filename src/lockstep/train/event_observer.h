// lockstep/train/event_observer.h
//
// Puts a run's figures into its event file, for TensorBoard: losses and rates by step,
// evaluations and the weights' histograms by epoch. On rank 0.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "lockstep/core/error.h"
#include "lockstep/train/event_file.h"
#include "lockstep/train/observer.h"

namespace torch::nn {
class Module;
}

namespace lockstep::train {

class EventObserver final : public Observer {
 public:
  /// `model`, which must outlive this, is the one whose weights are drawn; nullptr: none are, as no rank has them as a
  /// whole.
  EventObserver(std::string folder, const torch::nn::Module* model);
  void on_start(const RunInfo& info) override;
  void on_step(const StepReport& report) override;
  void on_evaluation(const Evaluation& evaluation) override;
  void on_end() override;

 private:
  /// Curves are not worth a run: where they cannot be written it goes on without.
  void flush();
  void go_on_without(const Error& error);

  std::string folder_;
  const torch::nn::Module* model_;
  RunInfo info_;
  std::optional<EventFile> events_;  // none once it could not be written
  std::chrono::steady_clock::time_point flushed_ = {};
};

}  // namespace lockstep::train
