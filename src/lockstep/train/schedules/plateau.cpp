#include <cmath>
#include <cstdlib>
#include <limits>
#include <sstream>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/parallel/checked_number.h"
#include "lockstep/train/schedule.h"

namespace lockstep::train {
namespace {

class Plateau final : public Schedule {
 public:
  Plateau(double gamma, std::int64_t patience, double least_gain)
      : gamma_(gamma), patience_(patience), least_gain_(least_gain) {}
  double factor(std::int64_t) const override { return factor_; }
  bool needs_validation() const override { return true; }

  void observe(double validation_loss) override {
    if (validation_loss < best_ * (1 - least_gain_)) {
      best_ = validation_loss;
      waited_ = 0;
    } else if (++waited_ > patience_) {
      factor_ *= gamma_;
      waited_ = 0;
    }
  }

  std::string state() const override {
    std::ostringstream out;
    out << std::hexfloat << factor_ << ' ' << best_ << ' ' << waited_;
    return out.str();
  }
  void set_state(const std::string& state) override {
    // Streams cannot read what they wrote in hexadecimal.
    char* rest = nullptr;
    factor_ = std::strtod(state.c_str(), &rest);
    best_ = std::strtod(rest, &rest);
    const char* last = rest;
    waited_ = std::strtoll(last, &rest, 10);
    if (rest == last || *rest != '\0' || !(factor_ >= 0 && std::isfinite(factor_)) || waited_ < 0) {
      fail(Fault::Data, fmt::format("'{}' is not what a plateau schedule remembers: a factor, a loss, a count", state));
    }
  }

 private:
  double gamma_;
  std::int64_t patience_;
  double least_gain_;
  double factor_ = 1;
  double best_ = std::numeric_limits<double>::infinity();
  std::int64_t waited_ = 0;
};

const ScheduleRegistry::Add registered{
    "plateau",
    "Times gamma when the validation loss has not fallen for more than 'patience' looks: gamma, patience, least_gain",
    [](const Config& recipe, const std::string& key, const RunLength&) {
      const std::int64_t patience = recipe.get(key + ".patience", 10);
      if (patience < 0) fail(Fault::Usage, fmt::format("{}.patience = {}: it is from 0 on", key, patience));
      return std::make_unique<Plateau>(parallel::not_negative(recipe, key + ".gamma", 0.1), patience,
                                       parallel::share_below_one(recipe, key + ".least_gain", 1e-4));
    }};

}  // namespace
}  // namespace lockstep::train
