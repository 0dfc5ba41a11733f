// A square, or height x width, cut out of an image: anywhere, or from its middle.
#include <algorithm>
#include <cstring>

#include "lockstep/data/pixels.h"
#include "lockstep/data/transform.h"

namespace lockstep::data {
namespace {

class Crop final : public Transform {
 public:
  Crop(const Field& input, Arguments& arguments, bool anywhere) : field_(input), anywhere_(anywhere) {
    check_pixels(input, anywhere ? "crop" : "center_crop");
    const std::int64_t size = arguments.get("size", std::int64_t{0}, 1, kMostSide);
    height_ = arguments.get("height", size, 1, kMostSide);
    width_ = arguments.get("width", size, 1, kMostSide);
    pad_ = arguments.get("pad", std::int64_t{0}, 0, kMostSide);
    if (height_ < 1 || width_ < 1) fail(Fault::Usage, "a crop needs its size: size=24, or height=24 width=32");
    check_size(input.shape[0], input.shape[1]);
    field_.shape[0] = height_;
    field_.shape[1] = width_;
  }
  Field output() const override { return field_; }
  std::optional<std::string> without_chance() const override {
    return anywhere_ ? std::optional<std::string>("center_crop") : std::nullopt;
  }

  void apply(Value& value, Random& random, Scratch& scratch) const override {
    const Pixels from = pixels_of(value, field_.type);
    check_size(from.height, from.width);
    const Pixels to = {height_, width_, from.pixel_bytes};
    const std::int64_t top = place(from.height, height_, random) - pad_;
    const std::int64_t left = place(from.width, width_, random) - pad_;
    const auto cut = scratch.take(to.bytes());
    if (pad_ > 0) std::memset(cut.data(), 0, cut.size());
    const std::int64_t first = std::max<std::int64_t>(0, -left), last = std::min(width_, from.width - left);
    for (std::int64_t y = std::max<std::int64_t>(0, -top); y < std::min(height_, from.height - top); ++y) {
      if (last <= first) break;
      std::memcpy(
          cut.data() + static_cast<std::size_t>(y) * to.row_bytes() + static_cast<std::size_t>(first) * to.pixel_bytes,
          value.bytes.data() + static_cast<std::size_t>(y + top) * from.row_bytes() +
              static_cast<std::size_t>(first + left) * from.pixel_bytes,
          static_cast<std::size_t>(last - first) * to.pixel_bytes);
    }
    value.bytes = cut;
    value.shape[0] = height_;
    value.shape[1] = width_;
  }

 private:
  void check_size(std::int64_t height, std::int64_t width) const {
    const auto too_small = [&](std::int64_t size, std::int64_t wanted) {
      return size >= 0 && size + 2 * pad_ < wanted;
    };
    if (too_small(height, height_) || too_small(width, width_)) {
      fail(Fault::Data, fmt::format("an image of {} x {} is smaller than the crop of {} x {}; give it pad=…", height,
                                    width, height_, width_));
    }
  }
  /// In the padded image.
  std::int64_t place(std::int64_t size, std::int64_t wanted, Random& random) const {
    const std::int64_t room = size + 2 * pad_ - wanted;
    return anywhere_ ? static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(room) + 1)) : room / 2;
  }

  Field field_;
  bool anywhere_;
  std::int64_t height_ = 0;
  std::int64_t width_ = 0;
  std::int64_t pad_ = 0;
};

const TransformRegistry::Add anywhere{
    "crop", "Cuts a piece out of an image, anywhere: size=24 pad=4",
    [](const Field& input, Arguments& arguments) { return std::make_unique<Crop>(input, arguments, true); }};
const TransformRegistry::Add middle{
    "center_crop", "Cuts the middle out of an image: size=24",
    [](const Field& input, Arguments& arguments) { return std::make_unique<Crop>(input, arguments, false); }};

}  // namespace
}  // namespace lockstep::data
