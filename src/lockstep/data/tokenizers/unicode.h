// lockstep/data/tokenizers/unicode.h
//
// Characters of UTF-8 and the kinds that text is cut by. A byte that begins no valid
// character is a character of its own, of kind Other, so that any bytes can be walked.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace lockstep::data {

enum class CharKind : std::uint8_t { Other, Letter, Number, Space };

struct Char {
  CharKind kind = CharKind::Other;
  std::uint8_t bytes = 1;
};

/// Beyond ASCII; `text` begins with it.
Char wide_char(std::string_view text) noexcept;

inline constexpr std::array<CharKind, 128> kAsciiKinds = [] {
  std::array<CharKind, 128> kinds{};
  for (std::size_t c = 'a'; c <= 'z'; ++c) kinds[c] = kinds[c - 'a' + 'A'] = CharKind::Letter;
  for (std::size_t c = '0'; c <= '9'; ++c) kinds[c] = CharKind::Number;
  for (const unsigned char c : {' ', '\t', '\n', '\v', '\f', '\r'}) kinds[c] = CharKind::Space;
  return kinds;
}();

/// The character that begins at `at`, inside of `text`.
inline Char char_at(std::string_view text, std::size_t at) noexcept {
  const auto first = static_cast<unsigned char>(text[at]);
  return first < kAsciiKinds.size() ? Char{kAsciiKinds[first], 1} : wide_char(text.substr(at));
}

}  // namespace lockstep::data
