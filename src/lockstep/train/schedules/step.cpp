#include <cmath>

#include "lockstep/core/error.h"
#include "lockstep/parallel/checked_number.h"
#include "lockstep/train/schedule.h"

namespace lockstep::train {
namespace {

class Step final : public Schedule {
 public:
  Step(double every, double gamma) : every_(every), gamma_(gamma) {}
  double factor(std::int64_t step) const override {
    return std::pow(gamma_, std::floor(static_cast<double>(step) / every_));
  }

 private:
  double every_;  // steps
  double gamma_;
};

const ScheduleRegistry::Add registered{
    "step", "Times gamma every so many epochs: every_epochs, gamma",
    [](const Config& recipe, const std::string& key, const RunLength& length) {
      const double every = recipe.get(key + ".every_epochs", 1.0) * static_cast<double>(length.steps_of_epoch);
      if (!(every > 0)) fail(Fault::Usage, key + ".every_epochs is above 0");
      return std::make_unique<Step>(every, parallel::not_negative(recipe, key + ".gamma", 0.1));
    }};

}  // namespace
}  // namespace lockstep::train
