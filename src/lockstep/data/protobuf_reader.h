// lockstep/data/protobuf_reader.h
//
// Walks the fields of one message of protobuf's wire format, which needs no
// description of the message to be walked. Bytes that are no message end the walk and
// are told by broken(): whether that is an error, the caller knows.
#pragma once

#include <cstdint>

#include "lockstep/data/sample.h"

namespace lockstep::data {

class ProtobufReader {
 public:
  /// How the field lies in the bytes; groups are long out of use, and broken().
  enum class Wire : std::uint8_t { Varint = 0, Fixed64 = 1, Sized = 2, Fixed32 = 5 };

  explicit ProtobufReader(Bytes message) noexcept : rest_(message) {}

  /// To the next field; false at the end, or where bytes are broken().
  bool next() noexcept;
  bool broken() const noexcept { return broken_; }

  std::uint32_t number() const noexcept { return number_; }
  Wire wire() const noexcept { return wire_; }
  bool is(std::uint32_t number, Wire wire) const noexcept { return number_ == number && wire_ == wire; }
  /// Of Wire::Varint.
  std::uint64_t varint() const noexcept { return varint_; }
  /// Of the other three.
  Bytes bytes() const noexcept { return bytes_; }

 private:
  bool read_value(std::uint64_t wire) noexcept;
  bool take(std::uint64_t length) noexcept;

  Bytes rest_;
  bool broken_ = false;
  std::uint32_t number_ = 0;
  Wire wire_ = Wire::Varint;
  std::uint64_t varint_ = 0;
  Bytes bytes_;
};

}  // namespace lockstep::data
