// lockstep/data/utf8.h
//
// Whether bytes are text.
#pragma once

#include <string_view>

namespace lockstep::data {

/// As Unicode defines it: no overlong forms, no surrogates, nothing beyond U+10FFFF.
bool is_utf8(std::string_view text) noexcept;

}  // namespace lockstep::data
