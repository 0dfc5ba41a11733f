#include "lockstep/data/tokenizers/byte_alphabet.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kFirstStandIn = 256;
constexpr std::size_t kStandIns = 68;
constexpr std::size_t kCharacters = kFirstStandIn + kStandIns;

constexpr bool shows(std::size_t byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

constexpr auto kCharacterOf = [] {
  std::array<std::uint16_t, kByteValues> characters{};
  std::size_t next = kFirstStandIn;
  for (std::size_t byte = 0; byte < kByteValues; ++byte) {
    characters[byte] = static_cast<std::uint16_t>(shows(byte) ? byte : next++);
  }
  return characters;
}();

constexpr auto kByteOf = [] {  // -1: none
  std::array<std::int16_t, kCharacters> bytes{};
  bytes.fill(-1);
  for (std::size_t byte = 0; byte < kByteValues; ++byte) bytes[kCharacterOf[byte]] = static_cast<std::int16_t>(byte);
  return bytes;
}();

}  // namespace

std::array<std::uint8_t, kByteValues> bytes_in_order() noexcept {
  std::array<std::uint8_t, kByteValues> order{};
  std::size_t place = 0;
  for (const auto byte : kByteOf) {
    if (byte >= 0) order[place++] = static_cast<std::uint8_t>(byte);
  }
  return order;
}

std::string to_alphabet(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    const auto character = kCharacterOf[static_cast<unsigned char>(byte)];
    if (character < 0x80) {
      text += static_cast<char>(character);
    } else {
      text += static_cast<char>(0xC0 | character >> 6);
      text += static_cast<char>(0x80 | (character & 0x3F));
    }
  }
  return text;
}

std::optional<std::string> from_alphabet(std::string_view text) {
  std::string bytes;
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::size_t character = static_cast<unsigned char>(text[at]);
    if (character >= 0x80) {  // of two bytes, as all up to U+07FF
      if ((character & 0xE0) != 0xC0 || ++at == text.size()) return std::nullopt;
      character = (character & 0x1F) << 6 | (static_cast<unsigned char>(text[at]) & 0x3F);
    }
    if (character >= kCharacters || kByteOf[character] < 0) return std::nullopt;
    bytes += static_cast<char>(kByteOf[character]);
  }
  return bytes;
}

}  // namespace lockstep::data
