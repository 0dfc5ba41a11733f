// Pixels of an encoded image: uint8 [height, width, channels].
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/data/image.h"
#include "lockstep/data/pixels.h"
#include "lockstep/data/transform.h"

namespace lockstep::data {
namespace {

class Decode final : public Transform {
 public:
  Decode(const Field& input, Arguments& arguments) : field_(input) {
    const bool image =
        input.encoding == Encoding::Jpeg || input.encoding == Encoding::Png || input.encoding == Encoding::Raw;
    if (!image) fail(Fault::Usage, fmt::format("{} is not an encoded image", input.text()));
    const std::int64_t size = arguments.get("size", std::int64_t{-1}, 1, kMostSide);
    height_ = arguments.get("height", size, 1, kMostSide);
    width_ = arguments.get("width", size, 1, kMostSide);
    channels_ = arguments.get("channels", std::int64_t{3});
    if (channels_ != 1 && channels_ != 3) fail(Fault::Usage, fmt::format("channels={}; expected 1 or 3", channels_));
    field_.encoding = Encoding::Values;
    field_.type = c10::ScalarType::Byte;
    field_.shape = {height_, width_, channels_};
  }
  Field output() const override { return field_; }

  void apply(Value& value, Random&, Scratch& scratch) const override {
    const Image image = decode_image(value.bytes, static_cast<int>(channels_), scratch);
    const bool fits = (height_ < 0 || image.height == height_) && (width_ < 0 || image.width == width_);
    if (!fits) {
      fail(Fault::Data, fmt::format("the image is {} x {}, not {} x {}; leave the size out and crop it", image.height,
                                    image.width, height_, width_));
    }
    value = {image.pixels, {image.height, image.width, image.channels}, false};
  }

 private:
  Field field_;
  std::int64_t height_ = -1;
  std::int64_t width_ = -1;
  std::int64_t channels_ = 3;
};

const TransformRegistry::Add registered{
    "decode", "A JPEG or PNG to its pixels: channels=3, and size=64 where all images have one size",
    [](const Field& input, Arguments& arguments) { return std::make_unique<Decode>(input, arguments); }};

}  // namespace
}  // namespace lockstep::data
