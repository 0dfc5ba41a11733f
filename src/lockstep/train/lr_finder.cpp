#include "lockstep/train/lr_finder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/error.h"

namespace lockstep::train {
namespace {

constexpr double kSmoothing = 0.9;
/// The loss may be so much higher than its lowest before the sweep ends.
constexpr double kDiverged = 4;

void check(const LrSweep& sweep) {
  if (!(sweep.from > 0 && sweep.from < sweep.to && std::isfinite(sweep.to)) || sweep.steps < 10) {
    fail(Fault::Usage, fmt::format("learning rates from {} to {} in {} steps: the first is above 0 and below the last, "
                                   "and the steps are from 10 on",
                                   sweep.from, sweep.to, sweep.steps));
  }
}

/// Every rate is so many times the one before.
class Rising final : public Schedule {
 public:
  explicit Rising(const LrSweep& sweep) : sweep_(sweep) {}
  double factor(std::int64_t step) const override {
    const double share = static_cast<double>(step) / static_cast<double>(sweep_.steps - 1);
    return sweep_.from * std::pow(sweep_.to / sweep_.from, share);
  }

 private:
  LrSweep sweep_;
};

/// Notes losses, and ends the run when they diverge.
class Watch final : public Callback {
 public:
  explicit Watch(const LrSweep& sweep) : rates_(sweep) {}
  std::string name() const override { return "find_lr"; }

  bool judges() const override { return true; }
  Verdict judge(const StepFindings& findings) override {
    sum_ = kSmoothing * sum_ + (1 - kSmoothing) * findings.loss;
    weight_ = kSmoothing * weight_ + (1 - kSmoothing);
    const double smoothed = sum_ / weight_;
    const double best = found_.points.empty() ? smoothed : lowest()->smoothed;
    found_.diverged = !std::isfinite(smoothed) || smoothed > kDiverged * best;
    if (found_.diverged) return {Verdict::Do::Skip};
    found_.points.push_back({rates_.factor(findings.step - 1), findings.loss, smoothed});
    return {};
  }
  std::string wants_end() const override { return found_.diverged ? "the loss diverges" : ""; }

  LrFound found() {
    found_.suggested = steepest();
    return std::move(found_);
  }

 private:
  std::vector<LrPoint>::const_iterator lowest() const {
    return std::min_element(found_.points.begin(), found_.points.end(),
                            [](const auto& one, const auto& other) { return one.smoothed < other.smoothed; });
  }

  /// Where the loss falls most from one rate to the next, which are equally far apart in their logarithm.
  std::optional<double> steepest() const {
    const auto end = lowest();
    std::optional<double> best;
    double fastest = 0;
    // Over a tenth of the sweep at a time: noise of single losses must not look like a fall, least of all that of the
    // first, which are hardly smoothed.
    const std::ptrdiff_t apart = std::max<std::ptrdiff_t>(3, std::ssize(found_.points) / 20);
    for (auto point = found_.points.begin() + std::min(apart, std::ssize(found_.points)); end - point >= apart;
         ++point) {
      const double fall = (point - apart)->smoothed - (point + apart)->smoothed;
      if (fall <= fastest) continue;
      fastest = fall;
      best = point->lr;
    }
    return best;
  }

  Rising rates_;
  double sum_ = 0;
  double weight_ = 0;
  LrFound found_;
};

}  // namespace

LrFound find_lr(comm::Communicator& group, TrainerSettings settings, Task& task, TrainingData data,
                const LrSweep& sweep) {
  check(sweep);
  const auto watch = std::make_shared<Watch>(sweep);
  settings.steps = sweep.steps;
  settings.lr = 1;
  settings.schedule = [sweep](const RunLength&) { return std::make_unique<Rising>(sweep); };
  settings.callbacks = {watch};
  settings.fuse_step.reset();  // the watch looks at a step before it is taken
  settings.checkpoints = {};
  data.validation = nullptr;
  data.test = nullptr;
  (void)Trainer(group, std::move(settings)).fit(task, data);
  return watch->found();
}

}  // namespace lockstep::train
