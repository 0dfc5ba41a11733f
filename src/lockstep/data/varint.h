// lockstep/data/varint.h
//
// Numbers in as few bytes as they need, seven bits in each: of protocol buffers, and
// of the index.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/data/sample.h"

namespace lockstep::data {

void append_varint(std::string& bytes, std::uint64_t number);
/// Takes one from the front of `bytes`; nothing if it is cut short or longer than 64 bits.
std::optional<std::uint64_t> take_varint(Bytes& bytes) noexcept;

}  // namespace lockstep::data
