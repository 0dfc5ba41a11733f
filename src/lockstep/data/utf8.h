// lockstep/data/utf8.h
//
// Whether bytes are text.
#pragma once

#include <cstddef>
#include <string_view>

namespace lockstep::data {

/// By RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.
bool is_utf8(std::string_view text) noexcept;

/// Of the mark that some programs put in front of a text file; 0 if there is none.
inline std::size_t byte_order_mark(std::string_view text) noexcept {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return text.starts_with(kMark) ? kMark.size() : 0;
}

}  // namespace lockstep::data
