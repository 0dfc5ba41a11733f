// apps/whole_number.h
//
// The check of an option that takes a whole number.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <system_error>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace lockstep::apps {

/// CLI11's own checks of this kind print the largest double, all 309 digits of it.
inline CLI::Validator whole_from(std::int64_t least) {
  const auto check = [least](const std::string& text) -> std::string {
    std::int64_t number = 0;
    const char* end = text.data() + text.size();
    const auto [stop, code] = std::from_chars(text.data(), end, number);
    if (code == std::errc() && stop == end && number >= least) return "";
    const bool digits = stop == end && !text.starts_with('-');
    if (code == std::errc::result_out_of_range && digits) return fmt::format("'{}' is too large", text);
    return fmt::format("'{}' is not a whole number from {} on", text, least);
  };
  return {check, ""};
}

}  // namespace lockstep::apps
