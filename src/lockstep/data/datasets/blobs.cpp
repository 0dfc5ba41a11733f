// Clouds of points around a centre per class: for clustering and classification.
#include "lockstep/data/datasets/generator.h"
#include "lockstep/data/open.h"

namespace lockstep::data {
namespace {

constexpr double kBox = 10;  // centres lie in [-kBox, kBox] of every dim

class Blobs final : public Generator {
 public:
  explicit Blobs(Arguments& arguments)
      : Generator("blobs", arguments),
        dims_(arguments.get("dims", std::int64_t{2}, 1, 1 << 20)),
        classes_(arguments.get("classes", std::int64_t{3}, 1, 1 << 20)),
        spread_(arguments.get("spread", 1.0, 0, 1e6)) {
    add_field({"x", Encoding::Values, c10::ScalarType::Float, {dims_}});
    add_label(classes_);
  }

 protected:
  // The classes take turns, so that any run of samples is balanced.
  void fill(std::int64_t index, Random random, Sample& sample) const override {
    const std::int64_t label = index % classes_;
    Random centre = shared_random(static_cast<std::uint64_t>(label));
    for (auto& number : value_in<float>(sample, 0)) {
      number = static_cast<float>(centre.uniform(-kBox, kBox) + spread_ * random.normal());
    }
    value_in<std::int64_t>(sample, 1)[0] = label;
  }

 private:
  std::int64_t dims_;
  std::int64_t classes_;
  double spread_;
};

const DatasetRegistry::Add registered{
    "blobs", "Generated: normal clouds around a centre per class (samples, dims, classes, spread, seed)",
    [](const std::string& arguments) { return generate<Blobs>("blobs", arguments); }};

}  // namespace
}  // namespace lockstep::data
