// lockstep/data/tokenizers/byte_alphabet.h
//
// GPT-2's way to write any byte as a visible character, so that its vocabulary files
// are text: printable bytes of Latin-1 stand for themselves, the others, in their
// order, for the characters from U+0100 on. A space is "Ġ".
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::data {

inline constexpr std::size_t kByteValues = 256;

/// The bytes in the order of their characters, which is that of GPT-2's first 256 ids.
std::array<std::uint8_t, kByteValues> bytes_in_order() noexcept;

/// As UTF-8.
std::string to_alphabet(std::string_view bytes);
/// Nothing if a character is none of the alphabet.
std::optional<std::string> from_alphabet(std::string_view text);

}  // namespace lockstep::data
