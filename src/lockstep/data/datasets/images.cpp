// Stripes whose direction and width tell the class, shifted and under noise: images for
// measuring, on which a small network learns too.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "lockstep/data/datasets/generator.h"
#include "lockstep/data/open.h"

namespace lockstep::data {
namespace {

class Images final : public Generator {
 public:
  explicit Images(Arguments& arguments)
      : Generator("images", arguments),
        size_(arguments.get("size", std::int64_t{32}, 1, 1 << 14)),
        channels_(arguments.get("channels", std::int64_t{3}, 1, 16)),
        classes_(arguments.get("classes", std::int64_t{10}, 1, 1 << 20)),
        noise_(arguments.get("noise", 0.1, 0, 1)) {
    add_field({"image", Encoding::Values, c10::ScalarType::Byte, {size_, size_, channels_}});
    add_label(classes_);
  }

 protected:
  void fill(std::int64_t index, Random random, Sample& sample) const override {
    const std::int64_t label = index % classes_;
    const Stripes stripes = stripes_of(label, random);
    auto pixel = value_in<std::uint8_t>(sample, 0).begin();
    for (std::int64_t row = 0; row < size_; ++row) {
      for (std::int64_t column = 0; column < size_; ++column) {
        const double bright = stripes.at(static_cast<double>(row), static_cast<double>(column));
        for (std::int64_t channel = 0; channel < channels_; ++channel) {
          const double level = bright + noise_ * (2 * random.uniform() - 1);
          *pixel++ = static_cast<std::uint8_t>(std::lround(255 * std::clamp(level, 0.0, 1.0)));
        }
      }
    }
    value_in<std::int64_t>(sample, 1)[0] = label;
  }

 private:
  struct Stripes {
    double along_row, along_column, shift;
    double at(double row, double column) const {
      return 0.5 + 0.4 * std::sin(along_row * row + along_column * column + shift);
    }
  };

  Stripes stripes_of(std::int64_t label, Random& random) const {
    Random shared = shared_random(static_cast<std::uint64_t>(label));
    const double angle = shared.uniform(0, std::numbers::pi);
    const double frequency = 2 * std::numbers::pi * shared.uniform(1, 4) / static_cast<double>(size_);
    return {frequency * std::sin(angle), frequency * std::cos(angle), random.uniform(0, 2 * std::numbers::pi)};
  }

  std::int64_t size_;
  std::int64_t channels_;
  std::int64_t classes_;
  double noise_;
};

const DatasetRegistry::Add registered{
    "images", "Generated: stripes of a direction and width per class (samples, size, channels, classes, noise, seed)",
    [](const std::string& arguments) { return generate<Images>("images", arguments); }};

}  // namespace
}  // namespace lockstep::data
