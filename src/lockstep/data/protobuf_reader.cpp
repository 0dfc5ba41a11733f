#include "lockstep/data/protobuf_reader.h"

#include "lockstep/data/varint.h"

namespace lockstep::data {

bool ProtobufReader::take(std::uint64_t length) noexcept {
  if (length > rest_.size()) return false;
  bytes_ = rest_.first(length);
  rest_ = rest_.subspan(length);
  return true;
}

bool ProtobufReader::read_value(std::uint64_t wire) noexcept {
  wire_ = static_cast<Wire>(wire);
  if (wire_ == Wire::Fixed64) return take(8);
  if (wire_ == Wire::Fixed32) return take(4);
  if (wire_ != Wire::Varint && wire_ != Wire::Sized) return false;
  const auto number = take_varint(rest_);
  if (!number) return false;
  varint_ = *number;
  return wire_ == Wire::Varint || take(*number);
}

bool ProtobufReader::next() noexcept {
  if (rest_.empty() || broken_) return false;
  const auto tag = take_varint(rest_);
  const bool possible = tag && *tag <= UINT32_MAX && *tag >> 3 != 0;
  number_ = possible ? static_cast<std::uint32_t>(*tag >> 3) : 0;
  broken_ = !possible || !read_value(*tag & 7);
  return !broken_;
}

}  // namespace lockstep::data
