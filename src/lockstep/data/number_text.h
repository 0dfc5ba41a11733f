// lockstep/data/number_text.h
//
// Numbers as text, the same in every locale. Reading takes the whole text, apart from
// blanks around it, or gives nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <c10/core/ScalarType.h>

namespace lockstep::data {

/// Without the spaces and tabs around it.
std::string_view trimmed(std::string_view text) noexcept;

std::optional<std::int64_t> parse_int64(std::string_view text) noexcept;
/// Also nan, inf and 1e5; what is too large is infinite, what is too small is 0.
std::optional<double> parse_float64(std::string_view text);
/// true and false, also with capitals.
std::optional<bool> parse_bool(std::string_view text) noexcept;
/// How tables write that there is no value: nothing, NA, NaN, null or N/A.
bool is_missing(std::string_view text) noexcept;

/// One element of such values, with the fewest digits that give the same number back. A float
/// that is whole keeps its point, so that it stays a float: 2.0.
void append_number(std::string& text, c10::ScalarType type, const std::byte* element);

}  // namespace lockstep::data
