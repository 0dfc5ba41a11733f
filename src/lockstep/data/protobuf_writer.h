// lockstep/data/protobuf_writer.h
//
// Appends fields to a message of protobuf's wire format.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "lockstep/data/protobuf_reader.h"
#include "lockstep/data/varint.h"

namespace lockstep::data {

inline void append_tag(std::string& message, std::uint32_t number, ProtobufReader::Wire wire) {
  append_varint(message, number << 3 | static_cast<std::uint32_t>(wire));
}
/// Bytes, a text or another message.
inline void append_field(std::string& message, std::uint32_t number, std::string_view bytes) {
  append_tag(message, number, ProtobufReader::Wire::Sized);
  append_varint(message, bytes.size());
  message += bytes;
}
inline void append_integer(std::string& message, std::uint32_t number, std::int64_t value) {
  append_tag(message, number, ProtobufReader::Wire::Varint);
  append_varint(message, static_cast<std::uint64_t>(value));
}
/// float or double.
template <class Number>
void append_number(std::string& message, std::uint32_t number, Number value) {
  append_tag(message, number, sizeof value == 8 ? ProtobufReader::Wire::Fixed64 : ProtobufReader::Wire::Fixed32);
  message.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace lockstep::data
