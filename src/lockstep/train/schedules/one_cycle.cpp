#include <algorithm>
#include <cmath>
#include <numbers>

#include "lockstep/core/error.h"
#include "lockstep/parallel/checked_number.h"
#include "lockstep/train/schedule.h"

namespace lockstep::train {
namespace {

/// Smith and Topin, "Super-convergence" (2018), in the two phases of PyTorch's OneCycleLR.
class OneCycle final : public Schedule {
 public:
  OneCycle(std::int64_t steps, double rise, double start, double last)
      : top_(rise * static_cast<double>(steps) - 1),
        end_(static_cast<double>(std::max<std::int64_t>(steps - 1, 1))),
        start_(start),
        last_(last) {}
  double factor(std::int64_t step) const override {
    const double place = static_cast<double>(step);
    // A rise of one step has no way up: it begins with the highest rate.
    return place <= top_ && top_ > 0 ? between(start_, 1, place / top_)
                                     : between(1, last_, (place - top_) / (end_ - top_));
  }

 private:
  static double between(double from, double to, double share) {
    return to + (from - to) * (1 + std::cos(std::numbers::pi * std::clamp(share, 0.0, 1.0))) / 2;
  }

  double top_;  // step of the highest rate
  double end_;
  double start_;
  double last_;
};

const ScheduleRegistry::Add registered{
    "one_cycle", "Up and down once: rise (share of the run), start and last (shares of the rate)",
    [](const Config& recipe, const std::string& key, const RunLength& length) {
      const double rise = recipe.get(key + ".rise", 0.3);
      if (!(rise > 0 && rise < 1)) fail(Fault::Usage, key + ".rise is a share between 0 and 1");
      return std::make_unique<OneCycle>(length.steps, rise, parallel::share(recipe, key + ".start", 0.04),
                                        parallel::share(recipe, key + ".last", 4e-6));
    }};

}  // namespace
}  // namespace lockstep::train
