#include "lockstep/data/utf8.h"

#include <cstdint>
#include <cstring>

namespace lockstep::data {
namespace {

constexpr std::uint64_t kHighBits = 0x8080808080808080;

/// Of the character that begins with `lead`; 0 if none does.
std::size_t length_by(unsigned char lead) noexcept {
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;  // a following byte, or the overlong form of one
  if (lead < 0xE0) return 2;
  if (lead < 0xF0) return 3;
  return lead < 0xF5 ? 4 : 0;
}

/// The second byte excludes overlong forms, surrogates and what is too large.
bool second_fits(unsigned char lead, unsigned char second) noexcept {
  const unsigned char lowest = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char highest = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  return second >= lowest && second <= highest;
}

bool follows(unsigned char byte) noexcept { return (byte & 0xC0) == 0x80; }

std::size_t ascii_prefix(std::string_view text) noexcept {
  std::size_t at = 0;
  for (std::uint64_t word = 0; text.size() - at >= sizeof word; at += sizeof word) {
    std::memcpy(&word, text.data() + at, sizeof word);
    if ((word & kHighBits) != 0) break;
  }
  return at;
}

}  // namespace

bool is_utf8(std::string_view text) noexcept {
  while (true) {
    text.remove_prefix(ascii_prefix(text));
    if (text.empty()) return true;
    const auto byte = [&](std::size_t place) { return static_cast<unsigned char>(text[place]); };
    const std::size_t length = length_by(byte(0));
    if (length == 0 || length > text.size()) return false;
    if (length > 1 && !second_fits(byte(0), byte(1))) return false;
    for (std::size_t place = 2; place < length; ++place) {
      if (!follows(byte(place))) return false;
    }
    text.remove_prefix(length);
  }
}

}  // namespace lockstep::data
