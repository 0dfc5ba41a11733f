// lockstep/core/text.h
//
// Small text work that every layer needs: sizes with units, splitting, and the
// nearest name to a mistyped one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// "64KiB" -> 65536; B, KiB, MiB, GiB, TiB and KB, MB, GB, TB; a bare number is bytes.
std::int64_t parse_bytes(std::string_view text);
/// 65536 -> "64 KiB"; the largest unit that keeps the number at 1 or above.
std::string format_bytes(std::int64_t bytes);
/// 3.2e-6 -> "3.20 us"; from two minutes on "2m05s" and "1h02m05s".
std::string format_seconds(double seconds);

/// Empty parts are kept; an empty text has no parts.
std::vector<std::string> split(std::string_view text, char separator);
std::string join(const std::vector<std::string>& parts, std::string_view separator);
/// For messages: "a, b, … (17 in all)" of the first `most` of many names, else all of them.
std::string list_some(const std::vector<std::string>& names, std::size_t most);

/// A whole number between `lowest` and `highest`; anything else is an Error naming `what`.
std::int64_t parse_integer(std::string_view what, std::string_view text, std::int64_t lowest, std::int64_t highest);

/// "; did you mean 'lr'?" when a candidate is near enough, else the list of candidates.
std::string proposal(std::string_view name, const std::vector<std::string>& candidates);
/// The same with another list.
std::string proposal(std::string_view name, const std::vector<std::string>& candidates,
                     const std::vector<std::string>& list);

}  // namespace lockstep
