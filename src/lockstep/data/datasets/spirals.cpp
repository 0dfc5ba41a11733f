// Arms of a spiral in the plane, one per class: no line tells them apart, a small
// network does.
#include <cmath>
#include <numbers>

#include "lockstep/data/datasets/generator.h"
#include "lockstep/data/open.h"

namespace lockstep::data {
namespace {

constexpr double kTurns = 1.5;

class Spirals final : public Generator {
 public:
  explicit Spirals(Arguments& arguments)
      : Generator("spirals", arguments),
        classes_(arguments.get("classes", std::int64_t{2}, 1, 1000)),
        noise_(arguments.get("noise", 0.02, 0, 1e6)) {
    add_field({"x", Encoding::Values, c10::ScalarType::Float, {2}});
    add_label(classes_);
  }

 protected:
  void fill(std::int64_t index, Random random, Sample& sample) const override {
    const std::int64_t label = index % classes_;
    const double radius = std::sqrt(random.uniform());  // as dense outside as inside
    const double turns = kTurns * radius + static_cast<double>(label) / static_cast<double>(classes_);
    const double angle = 2 * std::numbers::pi * turns;
    const auto x = value_in<float>(sample, 0);
    x[0] = static_cast<float>(radius * std::cos(angle) + noise_ * random.normal());
    x[1] = static_cast<float>(radius * std::sin(angle) + noise_ * random.normal());
    value_in<std::int64_t>(sample, 1)[0] = label;
  }

 private:
  std::int64_t classes_;
  double noise_;
};

const DatasetRegistry::Add registered{
    "spirals", "Generated: arms of a spiral in the plane, one per class (samples, classes, noise, seed)",
    [](const std::string& arguments) { return generate<Spirals>("spirals", arguments); }};

}  // namespace
}  // namespace lockstep::data
