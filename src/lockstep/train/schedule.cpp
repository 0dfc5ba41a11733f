#include "lockstep/train/schedule.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "lockstep/core/error.h"

namespace lockstep::train {
namespace {

class WarmUp final : public Schedule {
 public:
  WarmUp(std::int64_t steps, double start, std::unique_ptr<Schedule> then)
      : steps_(steps), start_(start), then_(std::move(then)) {
    name = then_->name;
  }
  double factor(std::int64_t step) const override {
    if (step >= steps_) return then_->factor(step - steps_);
    return then_->factor(0) * (start_ + (1 - start_) * static_cast<double>(step) / static_cast<double>(steps_));
  }
  void observe(double validation_loss) override { then_->observe(validation_loss); }
  bool needs_validation() const override { return then_->needs_validation(); }
  std::string state() const override { return then_->state(); }
  void set_state(const std::string& state) override { then_->set_state(state); }

 private:
  std::int64_t steps_;
  double start_;
  std::unique_ptr<Schedule> then_;
};

}  // namespace

std::unique_ptr<Schedule> make_schedule(const Config& recipe, const std::string& key, const RunLength& length,
                                        double rate_scale) {
  const std::string name = recipe.get(key + ".name", "constant");
  const auto make = [&](std::int64_t warm_up) {
    // A run that is shorter than its warm-up ends within it.
    const RunLength rest{std::max<std::int64_t>(length.steps - warm_up, 0), length.steps_of_epoch};
    auto schedule = ScheduleRegistry::instance().at("schedule", name)(recipe, key, rest);
    schedule->name = name;
    return schedule;
  };
  const bool scaled = rate_scale > 1;
  const double epochs = recipe.get(key + ".warmup_epochs", 0.0),
               start = recipe.get(key + ".warmup_start", scaled ? 1 / rate_scale : 0.1);
  const auto steps_of = [&](double count) { return std::llround(count * static_cast<double>(length.steps_of_epoch)); };
  const std::int64_t steps = recipe.get(key + ".warmup_steps", 0);
  std::int64_t warm_up = steps != 0 ? steps : steps_of(epochs);
  if (warm_up < 0 || !(start >= 0 && start <= 1)) {
    fail(Fault::Usage,
         fmt::format("{}: a warm-up of {} steps from {} on: steps are from 0 on, the start is from 0 to 1", key,
                     warm_up, start));
  }
  if (steps != 0 && epochs != 0) {
    fail(Fault::Usage,
         fmt::format("{0}.warmup_steps and {0}.warmup_epochs say the same: set one of them, the other to 0", key));
  }
  const bool chosen = recipe.has(key + ".warmup_steps") || recipe.has(key + ".warmup_epochs");
  if (scaled && !chosen && make(0)->factor(0) == 1) {
    // Goyal et al., "Accurate, large minibatch SGD" (2017), and no more than a tenth of a short run.
    warm_up = std::min<std::int64_t>(steps_of(5), length.steps / 10);
  }
  auto then = make(warm_up);
  return warm_up == 0 ? std::move(then) : std::make_unique<WarmUp>(warm_up, start, std::move(then));
}

}  // namespace lockstep::train
