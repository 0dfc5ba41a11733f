#include "data/value_text.h"

#include <algorithm>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lockstep/core/text.h"
#include "lockstep/data/file_bytes.h"

namespace lockstep::apps {
namespace {

constexpr std::size_t kNumbersShown = 6;
constexpr std::size_t kCharactersShown = 60;

template <class Number>
std::vector<Number> converted(c10::ScalarType type, data::Bytes bytes) {
  const auto count = static_cast<std::int64_t>(bytes.size() / c10::elementSize(type));
  const auto tensor = at::from_blob(const_cast<std::byte*>(bytes.data()), {count}, at::TensorOptions(type));
  const auto numbers = tensor.to(c10::CppTypeToScalarType<Number>::value).contiguous();
  const auto* begin = numbers.template const_data_ptr<Number>();
  return {begin, begin + count};
}

std::vector<std::string> number_texts(c10::ScalarType type, data::Bytes bytes) {
  std::vector<std::string> texts;
  if (!c10::isIntegralType(type, true)) {
    for (const double number : converted<double>(type, bytes)) texts.push_back(fmt::format("{:.6g}", number));
    return texts;
  }
  for (const std::int64_t number : converted<std::int64_t>(type, bytes)) texts.push_back(integer_text(type, number));
  return texts;
}

}  // namespace

std::string printable(std::string_view text, std::size_t most_characters) {
  std::string shown;
  for (const char c : text.substr(0, most_characters)) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '\n')
      shown += "\\n";
    else if (c == '\t')
      shown += "\\t";
    else if (code < 0x20 || code == 0x7f)
      shown += fmt::format("\\x{:02x}", code);
    else
      shown += c;
  }
  return text.size() > most_characters ? shown + "…" : shown;
}

std::string integer_text(c10::ScalarType type, std::int64_t number) {
  return type == at::kUInt64 ? fmt::format("{}", static_cast<std::uint64_t>(number)) : fmt::format("{}", number);
}

std::vector<std::int64_t> integers_of(const data::Field& field, const data::Value& value) {
  return converted<std::int64_t>(field.type, value.bytes);
}

std::vector<double> numbers_of(const data::Field& field, const data::Value& value) {
  return converted<double>(field.type, value.bytes);
}

std::string value_text(const data::Field& field, const data::Value& value) {
  using data::Encoding;
  if (value.missing) return "missing";
  if (field.encoding == Encoding::Text) return '"' + printable(data::as_text(value.bytes), kCharactersShown) + '"';
  if (field.encoding != Encoding::Values) {
    return fmt::format("{}, {}", data::name_of(field.encoding),
                       format_bytes(static_cast<std::int64_t>(value.bytes.size())));
  }
  const std::size_t count = value.bytes.size() / c10::elementSize(field.type);
  const auto few = value.bytes.first(std::min(count, kNumbersShown) * c10::elementSize(field.type));
  const auto shown = number_texts(field.type, few);
  if (count == 1 && !field.classes.empty()) {
    const double number = numbers_of(field, value)[0];
    const auto label = static_cast<std::size_t>(number);
    if (number >= 0 && label < field.classes.size()) return fmt::format("{} ({})", shown[0], field.classes[label]);
  }
  if (value.shape.empty()) return shown.empty() ? "" : shown[0];
  std::vector<std::string> sizes;
  for (const auto size : value.shape) sizes.push_back(std::to_string(size));
  return fmt::format("[{}]: {}{}", join(sizes, ", "), join(shown, " "), count > kNumbersShown ? " …" : "");
}

}  // namespace lockstep::apps
