#include <cstring>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/data/label.h"
#include "lockstep/data/transform.h"

namespace lockstep::data {
namespace {

/// Every sample becomes a row of so many floats.
constexpr std::int64_t kMostClasses = 1 << 20;

class OneHot final : public Transform {
 public:
  OneHot(const Field& input, Arguments& arguments) : input_(input) {
    check_label(input);
    classes_ = arguments.get("classes", static_cast<std::int64_t>(input.classes.size()), 1, kMostClasses);
    if (classes_ < 1) fail(Fault::Usage, fmt::format("{}: how many classes? Say classes=10", input.text()));
  }
  Field output() const override {
    return {input_.name, Encoding::Values, c10::ScalarType::Float, {classes_}, input_.classes};
  }

  void apply(Value& value, Random&, Scratch& scratch) const override {
    const std::int64_t label = label_of(input_, value);
    if (label < 0 || label >= classes_) fail(Fault::Data, fmt::format("label {} of {} classes", label, classes_));
    const auto memory = scratch.take(static_cast<std::size_t>(classes_) * sizeof(float));
    auto* floats = reinterpret_cast<float*>(memory.data());
    std::fill(floats, floats + classes_, 0.0F);
    floats[label] = 1;
    value = {memory, {classes_}, false};
  }

 private:
  Field input_;
  std::int64_t classes_ = 0;
};

const TransformRegistry::Add registered{
    "one_hot", "A label to a row of zeros and a one: classes=10",
    [](const Field& input, Arguments& arguments) { return std::make_unique<OneHot>(input, arguments); }};

}  // namespace
}  // namespace lockstep::data
