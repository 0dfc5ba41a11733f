// lockstep/data/record_frames.h
//
// The frames of a TFRecord file: each is the length of its data, a checksum of the
// length, the data, and a checksum of the data, in little-endian order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/data/sample.h"

namespace lockstep::data {

struct Frame {
  std::uint64_t offset = 0;  // of the data
  Bytes data;
};

class FrameReader {
 public:
  explicit FrameReader(Bytes file) noexcept : file_(file) {}
  /// Nothing at the end of the file. Fault::Data, naming record and byte, if a frame is cut short or
  /// a checksum is not that of its bytes.
  std::optional<Frame> next();

 private:
  Bytes file_;
  std::uint64_t at_ = 0;
  std::uint64_t record_ = 0;  // the number of the next one
};

/// By the checksum of the first length.
bool begins_with_frame(Bytes head) noexcept;

std::string framed(Bytes data);

}  // namespace lockstep::data
