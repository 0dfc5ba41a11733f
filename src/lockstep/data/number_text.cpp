#include "lockstep/data/number_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <fmt/format.h>

#include "lockstep/comm/types.h"
#include "lockstep/core/error.h"

namespace lockstep::data {
namespace {

/// std::from_chars knows no "+5".
std::string_view without_plus(std::string_view text) noexcept {
  const bool plus = text.size() > 1 && text[0] == '+' && text[1] != '-';
  return plus ? text.substr(1) : text;
}

bool same_word(std::string_view text, std::string_view lower) noexcept {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(), [](char letter, char wanted) {
    return letter == wanted || (letter >= 'A' && letter <= 'Z' && letter - 'A' + 'a' == wanted);
  });
}

template <class Number>
Number element_at(const std::byte* element) {
  Number number{};
  std::memcpy(&number, element, sizeof number);
  return number;
}

template <class Number>
std::string_view printed(std::array<char, 32>& buffer, Number number) {
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number).ptr;
  return {buffer.data(), static_cast<std::size_t>(end - buffer.data())};
}

template <class Integer>
void append_integer(std::string& text, const std::byte* element) {
  std::array<char, 32> buffer;
  text += printed(buffer, element_at<Integer>(element));
}

template <class Float>
void append_float(std::string& text, Float number) {
  std::array<char, 32> buffer;
  const auto digits = printed(buffer, number);
  text += digits;
  if (digits.find_first_not_of("-0123456789") == std::string_view::npos) text += ".0";
}

}  // namespace

std::string_view trimmed(std::string_view text) noexcept {
  const auto blank = [](char letter) { return letter == ' ' || letter == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

std::optional<std::int64_t> parse_int64(std::string_view text) noexcept {
  text = without_plus(trimmed(text));
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<double> parse_float64(std::string_view text) {
  text = without_plus(trimmed(text));
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::invalid_argument || end != text.data() + text.size()) return std::nullopt;
  // It is a number, but from_chars does not say on which side it is out of range.
  if (error == std::errc::result_out_of_range) return std::strtod(std::string(text).c_str(), nullptr);
  return number;
}

std::optional<bool> parse_bool(std::string_view text) noexcept {
  text = trimmed(text);
  if (same_word(text, "true")) return true;
  if (same_word(text, "false")) return false;
  return std::nullopt;
}

bool is_missing(std::string_view text) noexcept {
  text = trimmed(text);
  return text.empty() || text == "NA" || text == "NaN" || text == "null" || text == "N/A";
}

void append_number(std::string& text, c10::ScalarType type, const std::byte* element) {
  using c10::ScalarType;
  switch (type) {
    case ScalarType::Bool: text += element_at<std::uint8_t>(element) != 0 ? "true" : "false"; return;
    case ScalarType::Byte: return append_integer<std::uint8_t>(text, element);
    case ScalarType::Char: return append_integer<std::int8_t>(text, element);
    case ScalarType::Short: return append_integer<std::int16_t>(text, element);
    case ScalarType::Int: return append_integer<std::int32_t>(text, element);
    case ScalarType::Long: return append_integer<std::int64_t>(text, element);
    case ScalarType::UInt16: return append_integer<std::uint16_t>(text, element);
    case ScalarType::UInt32: return append_integer<std::uint32_t>(text, element);
    case ScalarType::UInt64: return append_integer<std::uint64_t>(text, element);
    case ScalarType::Half: return append_float(text, static_cast<float>(element_at<c10::Half>(element)));
    case ScalarType::BFloat16: return append_float(text, static_cast<float>(element_at<c10::BFloat16>(element)));
    case ScalarType::Float: return append_float(text, element_at<float>(element));
    case ScalarType::Double: return append_float(text, element_at<double>(element));
    default: fail(Fault::Internal, fmt::format("no text for values of {}", comm::name_of(type)));
  }
}

}  // namespace lockstep::data
