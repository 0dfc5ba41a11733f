#include <cstring>

#include "lockstep/data/pixels.h"
#include "lockstep/data/transform.h"

namespace lockstep::data {
namespace {

class Flip final : public Transform {
 public:
  Flip(const Field& input, Arguments& arguments) : field_(input), chance_(arguments.get("chance", 0.5, 0, 1)) {
    check_pixels(input, "flip");
  }
  Field output() const override { return field_; }
  std::optional<std::string> without_chance() const override {
    return chance_ < 1 ? std::optional<std::string>("") : std::nullopt;
  }

  void apply(Value& value, Random& random, Scratch& scratch) const override {
    if (!random.chance(chance_)) return;
    const Pixels pixels = pixels_of(value, field_.type);
    const auto turned = scratch.take(pixels.bytes());
    for (std::int64_t y = 0; y < pixels.height; ++y) {
      const std::byte* from = value.bytes.data() + static_cast<std::size_t>(y) * pixels.row_bytes();
      std::byte* to = turned.data() + static_cast<std::size_t>(y + 1) * pixels.row_bytes();
      for (std::int64_t x = 0; x < pixels.width; ++x) {
        to -= pixels.pixel_bytes;
        std::memcpy(to, from, pixels.pixel_bytes);
        from += pixels.pixel_bytes;
      }
    }
    value.bytes = turned;
  }

 private:
  Field field_;
  double chance_;
};

const TransformRegistry::Add registered{
    "flip", "Mirrors an image left to right: chance=0.5",
    [](const Field& input, Arguments& arguments) { return std::make_unique<Flip>(input, arguments); }};

}  // namespace
}  // namespace lockstep::data
