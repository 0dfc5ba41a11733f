#include "lockstep/data/utf8.h"

#include <cstddef>
#include <cstdint>

namespace lockstep::data {

bool is_utf8(std::string_view text) noexcept {
  for (std::size_t place = 0; place < text.size();) {
    const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
    const std::uint32_t lead = byte(place++);
    if (lead < 0x80) continue;
    const std::size_t more = (lead & 0xE0) == 0xC0 ? 1 : (lead & 0xF0) == 0xE0 ? 2 : (lead & 0xF8) == 0xF0 ? 3 : 0;
    if (more == 0 || more > text.size() - place) return false;
    std::uint32_t point = lead & (0x3FU >> more);
    for (std::size_t i = 0; i < more; ++i) {
      const std::uint32_t next = byte(place++);
      if ((next & 0xC0) != 0x80) return false;
      point = point << 6 | (next & 0x3F);
    }
    const std::uint32_t least = more == 1 ? 0x80 : more == 2 ? 0x800 : 0x10000;
    if (point < least || point > 0x10FFFF || (point >= 0xD800 && point < 0xE000)) return false;
  }
  return true;
}

}  // namespace lockstep::data
