#include "lockstep/train/event_observer.h"

#include <utility>

#include "lockstep/core/log.h"
#include "lockstep/parallel/module_parameters.h"

namespace lockstep::train {
namespace {

/// Of a run of a million steps too a page draws its curve at once; of one without an end there are some points of
/// every epoch, or of so many steps.
std::int64_t steps_between_points(const RunLength& length) {
  constexpr std::int64_t kMostPoints = 2000, kWithoutEnd = std::int64_t{1} << 32, kPointsOfEpoch = 20, kSteps = 100;
  if (length.steps >= kWithoutEnd) return std::max(kSteps, length.steps_of_epoch / kPointsOfEpoch);
  return (length.steps - 1) / kMostPoints + 1;
}

}  // namespace

EventObserver::EventObserver(std::string folder, const torch::nn::Module* model)
    : folder_(std::move(folder)), model_(model) {}

void EventObserver::on_start(const RunInfo& info) {
  info_ = info;
  try {
    events_.emplace(folder_, info.first_step);
  } catch (const Error& error) {
    go_on_without(error);
  }
}

void EventObserver::on_step(const StepReport& report) {
  if (!events_) return;
  if (report.step % steps_between_points(info_.length) != 0 && report.step != info_.length.steps) return;
  events_->scalar("train/loss", report.step, report.loss);
  events_->scalar("train/lr", report.step, report.lr);
  events_->scalar("train/samples_per_s", report.step, static_cast<double>(report.samples) / report.seconds);
  events_->scalar("train/waited_for_ranks_share", report.step, report.waited_for_ranks_s / report.steps_s);
  events_->scalar("train/imbalance", report.step, report.imbalance);
  constexpr std::chrono::seconds kUnseen{2};
  const auto now = std::chrono::steady_clock::now();
  if (now - flushed_ < kUnseen) return;
  flushed_ = now;
  flush();
}

void EventObserver::on_evaluation(const Evaluation& evaluation) {
  if (!events_) return;
  for (const auto& [name, value] : evaluation.figures)
    events_->scalar(evaluation.of + "/" + name, evaluation.step, value);
  if (model_ != nullptr) {
    for (const auto& [name, tensor] : parallel::parameters_of(*model_))
      events_->histogram("weights/" + name, evaluation.step, tensor);
  }
  flush();
}

void EventObserver::on_end() {
  if (events_) flush();
}

void EventObserver::flush() {
  try {
    events_->flush();
  } catch (const Error& error) {
    go_on_without(error);
  }
}

void EventObserver::go_on_without(const Error& error) {
  log().warn("the run goes on without its curves: {}", error.what());
  events_.reset();
}

}  // namespace lockstep::train
