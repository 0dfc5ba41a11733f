#include "lockstep/data/protobuf_reader.h"

namespace lockstep::data {

std::optional<std::uint64_t> take_varint(Bytes& bytes) noexcept {
  std::uint64_t number = 0;
  for (std::size_t place = 0; place < bytes.size() && place < 10; ++place) {
    const auto byte = std::to_integer<std::uint64_t>(bytes[place]);
    if (place == 9 && byte > 1) return std::nullopt;
    number |= (byte & 0x7F) << 7 * place;
    if (byte < 0x80) {
      bytes = bytes.subspan(place + 1);
      return number;
    }
  }
  return std::nullopt;
}

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
