// Bytes of an image to floats, channels first, with mean and deviation taken out.
#include <array>
#include <cstring>
#include <vector>

#include "lockstep/data/pixels.h"
#include "lockstep/data/transform.h"

namespace lockstep::data {
namespace {

/// Pixels are from 0 to 1: what is beyond is a slip, and further on no float.
constexpr double kMost = 1e6;

class Normalise final : public Transform {
 public:
  Normalise(const Field& input, Arguments& arguments) : field_(input) {
    if (input.type != c10::ScalarType::Byte) {
      fail(Fault::Usage, fmt::format("{} is not uint8, of which 'normalise' makes floats", input.text()));
    }
    check_pixels(input, "normalise");
    channels_ = input.shape.size() == 3 ? input.shape[2] : 1;
    if (channels_ < 1) fail(Fault::Usage, fmt::format("{}: the number of channels must be known", input.text()));
    const auto mean = arguments.get("mean", std::vector<double>{0}, -kMost, kMost);
    const auto deviation = arguments.get("std", std::vector<double>{1}, 1 / kMost, kMost);
    for (const auto* values : {&mean, &deviation}) {
      if (values->size() != 1 && static_cast<std::int64_t>(values->size()) != channels_) {
        fail(Fault::Usage, fmt::format("{} values for {} channels of {}", values->size(), channels_, input.text()));
      }
    }
    // A byte has 256 values, so each is worked out once.
    table_.resize(static_cast<std::size_t>(channels_));
    for (std::size_t channel = 0; channel < table_.size(); ++channel) {
      const double m = mean[mean.size() == 1 ? 0 : channel], s = deviation[deviation.size() == 1 ? 0 : channel];
      for (std::size_t byte = 0; byte < 256; ++byte) {
        table_[channel][byte] = static_cast<float>((static_cast<double>(byte) / 255 - m) / s);
      }
    }
    field_.type = c10::ScalarType::Float;
    field_.shape = {channels_, input.shape[0], input.shape[1]};
    field_.channels_first = true;
  }
  Field output() const override { return field_; }

  void apply(Value& value, Random&, Scratch& scratch) const override {
    const std::int64_t height = value.shape[0], width = value.shape[1];
    const auto count = static_cast<std::size_t>(height * width), channels = table_.size();
    const auto memory = scratch.take(count * channels * sizeof(float));
    auto* floats = reinterpret_cast<float*>(memory.data());
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(value.bytes.data());
    for (std::size_t channel = 0; channel < channels; ++channel) {
      const auto& table = table_[channel];
      for (std::size_t i = 0; i < count; ++i) floats[channel * count + i] = table[bytes[i * channels + channel]];
    }
    value.bytes = memory;
    value.shape = {channels_, height, width};
  }

 private:
  Field field_;
  std::int64_t channels_ = 1;
  std::vector<std::array<float, 256>> table_;
};

const TransformRegistry::Add registered{
    "normalise", "Image bytes to floats, channels first: mean=0.5 std=0.25 (one value, or one per channel)",
    [](const Field& input, Arguments& arguments) { return std::make_unique<Normalise>(input, arguments); }};

}  // namespace
}  // namespace lockstep::data
