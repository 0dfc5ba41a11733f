#include "lockstep/data/tokenizers/unicode.h"

#include <algorithm>
#include <iterator>

namespace lockstep::data {
namespace {

struct KindRange {
  std::uint32_t first;
  std::uint32_t last;
  CharKind kind;
};

constexpr KindRange kRanges[] = {
#include "lockstep/data/tokenizers/unicode_ranges.inc"
};

CharKind kind_of(std::uint32_t code) noexcept {
  const auto* range = std::upper_bound(std::begin(kRanges), std::end(kRanges), code,
                                       [](std::uint32_t value, const KindRange& other) { return value < other.first; });
  if (range == std::begin(kRanges)) return CharKind::Other;
  --range;
  return code <= range->last ? range->kind : CharKind::Other;
}

struct Decoded {
  std::uint32_t code = 0;
  std::uint8_t bytes = 0;  // 0: invalid
};

/// Of a first byte above ASCII. Longer forms than needed and halves of surrogate pairs are invalid.
Decoded decode(std::string_view text) noexcept {
  struct Form {
    std::uint8_t mask, lead, bytes;
    std::uint32_t least;
  };
  static constexpr Form kForms[] = {{0xE0, 0xC0, 2, 0x80}, {0xF0, 0xE0, 3, 0x800}, {0xF8, 0xF0, 4, 0x10000}};
  const auto byte = [&](std::size_t at) { return static_cast<std::uint8_t>(text[at]); };
  for (const auto& form : kForms) {
    if ((byte(0) & form.mask) != form.lead) continue;
    if (text.size() < form.bytes) return {};
    std::uint32_t code = byte(0) & static_cast<std::uint8_t>(~form.mask);
    for (std::size_t at = 1; at < form.bytes; ++at) {
      if ((byte(at) & 0xC0) != 0x80) return {};
      code = code << 6 | (byte(at) & 0x3F);
    }
    const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
    if (code < form.least || code > 0x10FFFF || surrogate) return {};
    return {code, form.bytes};
  }
  return {};
}

}  // namespace

Char wide_char(std::string_view text) noexcept {
  const Decoded decoded = decode(text);
  if (decoded.bytes == 0) return {};
  return {kind_of(decoded.code), decoded.bytes};
}

}  // namespace lockstep::data
