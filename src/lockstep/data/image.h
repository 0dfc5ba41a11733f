// lockstep/data/image.h
//
// JPEG and PNG, told apart by their first bytes, into pixels and back. Pixels are bytes
// in the order row, column, channel; an alpha channel is dropped, 16 bits become 8, and
// grey is 0.299 R + 0.587 G + 0.114 B. Colour profiles are not applied. Any thread may
// decode at any time: each keeps a decoder of its own.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "lockstep/data/field.h"
#include "lockstep/data/sample.h"

namespace lockstep::data {

struct ImageSize {
  int height = 0;
  int width = 0;
  int channels = 0;  // 1: grey, 3: red, green, blue
  bool operator==(const ImageSize&) const = default;
};

struct Image : ImageSize {
  std::span<std::byte> pixels;
};

bool is_jpeg(Bytes encoded) noexcept;
bool is_png(Bytes encoded) noexcept;
/// Jpeg, Png, or Raw for all else.
inline Encoding encoding_by_magic(Bytes bytes) noexcept {
  return is_jpeg(bytes) ? Encoding::Jpeg : is_png(bytes) ? Encoding::Png : Encoding::Raw;
}
/// Whether this build has the library for Encoding::Jpeg or Encoding::Png.
bool has_decoder(Encoding encoding) noexcept;

/// With 1 or 3 channels, or 0: as stored. The pixels lie in `scratch`. Fault::Data with the library's
/// reason if the bytes are torn, even where it would have gone on with a warning.
Image decode_image(Bytes encoded, int channels, Scratch& scratch);
/// From the head alone.
ImageSize image_size(Bytes encoded);

/// `quality` from 1 to 100. Fault::Usage unless there are as many pixels as `size` says.
std::string encode_jpeg(Bytes pixels, const ImageSize& size, int quality);
std::string encode_png(Bytes pixels, const ImageSize& size);

}  // namespace lockstep::data
