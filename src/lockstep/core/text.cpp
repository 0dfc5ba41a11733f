#include "lockstep/core/text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/error.h"

namespace lockstep {
namespace {

constexpr double kBytesEnd = 9223372036854775808.0;  // 2^63

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

/// 0 if there is no such unit.
std::int64_t unit_bytes(const std::string& unit) {
  static constexpr std::array<std::pair<std::string_view, std::int64_t>, 10> kUnits{{{"", 1},
                                                                                     {"b", 1},
                                                                                     {"kib", 1LL << 10},
                                                                                     {"mib", 1LL << 20},
                                                                                     {"gib", 1LL << 30},
                                                                                     {"tib", 1LL << 40},
                                                                                     {"kb", 1'000},
                                                                                     {"mb", 1'000'000},
                                                                                     {"gb", 1'000'000'000},
                                                                                     {"tb", 1'000'000'000'000}}};
  for (const auto& [name, bytes] : kUnits) {
    if (name == unit) return bytes;
  }
  return 0;
}

/// Edits that turn `a` into `b`, a swap of neighbours counting as one: the commonest slip of the fingers.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> before(b.size() + 1), previous(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({previous[j] + 1, row[j - 1] + 1, previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, previous);
    std::swap(previous, row);
  }
  return previous[b.size()];
}

}  // namespace

std::int64_t parse_bytes(std::string_view text) {
  const auto refuse = [text](const char* reason) {
    fail(Fault::Usage, fmt::format("'{}' is not a size: {}", text, reason));
  };
  const auto digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const auto number = text.substr(0, digits);
  auto unit = text.substr(digits);
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  const auto factor = unit_bytes(lower(unit));
  if (number.empty()) refuse("it starts with no number (example: 64MiB)");
  if (factor == 0) refuse("units are B, KiB, MiB, GiB, TiB, KB, MB, GB and TB");

  std::int64_t whole = 0;
  const char* end = number.data() + number.size();
  // Whole numbers stay integers: a double would round above 2^53.
  if (const auto [stop, code] = std::from_chars(number.data(), end, whole); code == std::errc() && stop == end) {
    if (whole > std::numeric_limits<std::int64_t>::max() / factor) refuse("it is beyond 2^63 bytes");
    return whole * factor;
  }
  double fraction = 0;
  if (const auto [stop, code] = std::from_chars(number.data(), end, fraction); code != std::errc() || stop != end) {
    refuse("its number is malformed");
  }
  const double bytes = std::round(fraction * static_cast<double>(factor));
  if (bytes >= kBytesEnd) refuse("it is beyond 2^63 bytes");
  return static_cast<std::int64_t>(bytes);
}

std::string format_bytes(std::int64_t bytes) {
  static constexpr std::array<const char*, 5> kNames{"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (std::abs(value) >= 1024 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  auto number = fmt::format("{:.2f}", value);
  while (number.back() == '0') number.pop_back();
  if (number.back() == '.') number.pop_back();
  return number + ' ' + kNames[unit];
}

std::string format_seconds(double seconds) {
  if (seconds == 0) return "0 s";
  if (!std::isfinite(seconds)) return fmt::format("{} s", seconds);
  if (seconds < 0) return '-' + format_seconds(-seconds);
  if (seconds >= 119.5) {
    const auto whole = std::llround(std::min(seconds, 1e15));
    const auto hours = whole / 3600, minutes = whole / 60 % 60, rest = whole % 60;
    return hours > 0 ? fmt::format("{}h{:02}m{:02}s", hours, minutes, rest) : fmt::format("{}m{:02}s", minutes, rest);
  }
  static constexpr std::array<std::pair<double, const char*>, 3> kUnits{{{1e-9, "ns"}, {1e-6, "us"}, {1e-3, "ms"}}};
  for (const auto& [unit, name] : kUnits) {
    // 999.5 would print as 1000: such a number belongs to the next unit.
    if (const double value = seconds / unit; value < 999.5) {
      return fmt::format("{:.{}f} {}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, name);
    }
  }
  return fmt::format("{:.{}f} s", seconds, seconds < 9.995 ? 2 : seconds < 99.95 ? 1 : 0);
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  if (text.empty()) return parts;
  for (std::size_t begin = 0;;) {
    const auto end = text.find(separator, begin);
    parts.emplace_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string result;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) result += separator;
    result += parts[i];
  }
  return result;
}

std::string list_some(const std::vector<std::string>& names, std::size_t most) {
  if (names.size() <= most) return join(names, ", ");
  const std::vector<std::string> first(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(most));
  return join(first, ", ") + ", … (" + std::to_string(names.size()) + " in all)";
}

std::int64_t parse_integer(std::string_view what, std::string_view text, std::int64_t lowest, std::int64_t highest) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value);
  if (code != std::errc() || stop != end || value < lowest || value > highest) {
    fail(Fault::Usage, fmt::format("{} is '{}', expected a whole number from {} to {}", what, text, lowest, highest));
  }
  return value;
}

std::string proposal(std::string_view name, const std::vector<std::string>& candidates) {
  return proposal(name, candidates, candidates);
}

std::string proposal(std::string_view name, const std::vector<std::string>& candidates,
                     const std::vector<std::string>& list) {
  if (candidates.empty()) return "";
  const auto wanted = lower(name);
  const std::string* nearest = nullptr;
  // Of "optimizer.momentum" the first half is no slip, and so does not excuse any in the second.
  const std::size_t last_part = wanted.size() - (wanted.rfind('.') + 1);
  auto nearest_distance = std::max<std::size_t>(1, last_part / 3) + 1;
  for (const auto& candidate : candidates) {
    const auto distance = edit_distance(wanted, lower(candidate));
    if (distance < nearest_distance) {
      nearest = &candidate;
      nearest_distance = distance;
    }
  }
  // "lr" is far from "optimizer.lr" letter by letter, but is surely what was meant.
  for (const auto& candidate : candidates) {
    if (nearest == nullptr && !wanted.empty() && lower(candidate).ends_with('.' + wanted)) nearest = &candidate;
  }
  if (nearest != nullptr) return "; did you mean '" + *nearest + "'?";

  constexpr std::size_t kListed = 24;
  auto listed = list;
  if (listed.size() > kListed) {
    listed.resize(kListed);
    listed.emplace_back("…");
  }
  return "; known: " + join(listed, ", ");
}

}  // namespace lockstep
