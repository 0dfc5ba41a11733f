#include "lockstep/ml/category_text.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <tuple>

#include <c10/core/ScalarType.h>

#include "lockstep/data/number_text.h"

namespace lockstep::ml {
namespace {

/// Of the text of a float: what an integer of its value would be written as.
void shorten(std::string& text) {
  if (text.ends_with(".0")) {
    text.resize(text.size() - 2);
    if (text == "-0") text = "0";
  } else if (text.find('e') != std::string::npos) {
    constexpr double kInt64 = 9223372036854775808.0;  // 2^63
    const auto value = data::parse_float64(text);
    if (value && std::floor(*value) == *value && std::abs(*value) < kInt64)
      text = std::to_string(static_cast<std::int64_t>(*value));
  }
}

}  // namespace

std::optional<std::string_view> category_text(const data::Field& field, const data::Value& value,
                                              std::string& scratch) {
  if (value.missing) return std::nullopt;
  if (field.encoding == data::Encoding::Text)
    return std::string_view(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size());
  scratch.clear();
  data::append_number(scratch, field.type, value.bytes.data());
  if (!c10::isFloatingType(field.type)) return scratch;
  if (scratch == "nan" || scratch == "-nan") return std::nullopt;
  shorten(scratch);
  return scratch;
}

std::string category_text_of(std::string number) {
  if (data::parse_float64(number)) shorten(number);
  return number;
}

void sort_by_value(std::vector<std::string>& numbers) {
  // Integers beyond 2^53 are told apart as such.
  using Key = std::tuple<std::optional<double>, std::optional<std::int64_t>, std::string>;
  std::vector<Key> keys;
  for (auto& text : numbers) keys.emplace_back(data::parse_float64(text), data::parse_int64(text), std::move(text));
  std::sort(keys.begin(), keys.end());
  std::transform(keys.begin(), keys.end(), numbers.begin(), [](Key& key) { return std::move(std::get<2>(key)); });
}

}  // namespace lockstep::ml
