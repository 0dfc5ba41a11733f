#include <algorithm>
#include <cmath>
#include <numbers>

#include "lockstep/parallel/checked_number.h"
#include "lockstep/train/schedule.h"

namespace lockstep::train {
namespace {

class Cosine final : public Schedule {
 public:
  Cosine(std::int64_t steps, double last) : steps_(std::max<std::int64_t>(steps, 1)), last_(last) {}
  double factor(std::int64_t step) const override {
    const double share = std::min(1.0, static_cast<double>(step) / static_cast<double>(steps_));
    return last_ + (1 - last_) * (1 + std::cos(std::numbers::pi * share)) / 2;
  }

 private:
  std::int64_t steps_;
  double last_;
};

const ScheduleRegistry::Add registered{"cosine", "Half a wave of a cosine, down to the share 'last'",
                                       [](const Config& recipe, const std::string& key, const RunLength& length) {
                                         return std::make_unique<Cosine>(length.steps,
                                                                         parallel::share(recipe, key + ".last", 0));
                                       }};

}  // namespace
}  // namespace lockstep::train
