// An image in another size, each pixel the mean of those it covers (antialiased bilinear).
#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include <ATen/ATen.h>

#include "lockstep/data/pixels.h"
#include "lockstep/data/transform.h"

namespace lockstep::data {
namespace {

class Resize final : public Transform {
 public:
  Resize(const Field& input, Arguments& arguments) : field_(input) {
    check_pixels(input, "resize");
    const std::int64_t size = arguments.get("size", std::int64_t{0}, 1, kMostSide);
    height_ = arguments.get("height", size, 1, kMostSide);
    width_ = arguments.get("width", size, 1, kMostSide);
    shorter_ = arguments.get("shorter", std::int64_t{0}, 1, kMostSide);
    const bool both = height_ > 0 && width_ > 0;
    if (both == (shorter_ > 0)) {
      fail(Fault::Usage, "resize needs a size: size=64, height=48 width=64, or shorter=256 to keep the proportions");
    }
    if (input.type != c10::ScalarType::Byte && input.type != c10::ScalarType::Float) {
      fail(Fault::Usage, fmt::format("{} cannot be resized: uint8 and float32 can", input.text()));
    }
    field_.shape[0] = field_.shape[1] = -1;
    const bool known = both || (input.shape[0] > 0 && input.shape[1] > 0);
    if (known) std::tie(field_.shape[0], field_.shape[1]) = size_for(input.shape[0], input.shape[1]);
  }
  Field output() const override { return field_; }

  void apply(Value& value, Random&, Scratch& scratch) const override {
    const auto [height, width] = size_for(value.shape[0], value.shape[1]);
    if (height == value.shape[0] && width == value.shape[1]) return;
    if (value.bytes.empty()) fail(Fault::Data, "an image without pixels cannot be resized");
    const c10::InferenceMode no_gradients;
    const std::int64_t channels = value.shape.size() == 3 ? value.shape[2] : 1;
    const auto image = at::from_blob(const_cast<std::byte*>(value.bytes.data()),
                                     {1, value.shape[0], value.shape[1], channels}, at::TensorOptions(field_.type))
                           .permute({0, 3, 1, 2});
    const auto resized = at::_upsample_bilinear2d_aa(image, {height, width}, false).permute({0, 2, 3, 1}).contiguous();
    const auto memory = scratch.take(resized.nbytes());
    std::memcpy(memory.data(), resized.const_data_ptr(), memory.size());
    value.bytes = memory;
    value.shape[0] = height;
    value.shape[1] = width;
  }

 private:
  std::pair<std::int64_t, std::int64_t> size_for(std::int64_t height, std::int64_t width) const {
    if (shorter_ == 0) return {height_, width_};
    const std::int64_t least = std::max<std::int64_t>(1, std::min(height, width));
    const auto scaled = [&](std::int64_t side) {
      std::int64_t product = 0;
      if (__builtin_mul_overflow(side, shorter_, &product) || product / least > kMostSide) {
        fail(Fault::Data, fmt::format("an image of {} x {} with shorter={} would be more than {} pixels long", height,
                                      width, shorter_, kMostSide));
      }
      return std::max<std::int64_t>(1, product / least);
    };
    return {scaled(height), scaled(width)};
  }

  Field field_;
  std::int64_t height_ = 0;
  std::int64_t width_ = 0;
  std::int64_t shorter_ = 0;
};

const TransformRegistry::Add registered{
    "resize", "Scales an image: size=64, height=48 width=64, or shorter=256",
    [](const Field& input, Arguments& arguments) { return std::make_unique<Resize>(input, arguments); }};

}  // namespace
}  // namespace lockstep::data
