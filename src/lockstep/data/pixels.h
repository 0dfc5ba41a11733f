// lockstep/data/pixels.h
//
// Images among the transforms: values of shape [height, width] or [height, width,
// channels], of any type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/data/field.h"
#include "lockstep/data/sample.h"

namespace lockstep::data {

struct Pixels {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::size_t pixel_bytes = 0;
  std::size_t row_bytes() const noexcept { return static_cast<std::size_t>(width) * pixel_bytes; }
  std::size_t bytes() const noexcept { return static_cast<std::size_t>(height) * row_bytes(); }
};

/// The most pixels that a transform makes of a side: sizes then multiply without overflow.
inline constexpr std::int64_t kMostSide = 65'536;

/// Fault::Usage if the field is no image for `transform`, naming what would make it one.
inline void check_pixels(const Field& field, std::string_view transform) {
  if (field.channels_first) {
    fail(Fault::Usage, fmt::format("{} has its channels first, as normalise leaves it; put {} before normalise",
                                   field.text(), transform));
  }
  if (field.encoding == Encoding::Jpeg || field.encoding == Encoding::Png) {
    fail(Fault::Usage, fmt::format("{} is still encoded; put 'decode {}' before", field.text(), field.name));
  }
  const bool image = field.encoding == Encoding::Values && (field.shape.size() == 2 || field.shape.size() == 3);
  if (!image)
    fail(Fault::Usage, fmt::format("{} is no image of [height, width] or [height, width, channels]", field.text()));
}

inline Pixels pixels_of(const Value& value, c10::ScalarType type) {
  const std::int64_t channels = value.shape.size() == 3 ? value.shape[2] : 1;
  return {value.shape[0], value.shape[1], static_cast<std::size_t>(channels) * c10::elementSize(type)};
}

}  // namespace lockstep::data
