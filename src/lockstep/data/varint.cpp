#include "lockstep/data/varint.h"

namespace lockstep::data {

void append_varint(std::string& message, std::uint64_t number) {
  for (; number >= 0x80; number >>= 7) message += static_cast<char>(number | 0x80);
  message += static_cast<char>(number);
}

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

}  // namespace lockstep::data
