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

/// One line that a terminal shows as it is.
std::string printable(std::string_view text) {
  std::string shown;
  for (const char c : text.substr(0, kCharactersShown)) {
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
  return text.size() > kCharactersShown ? shown + "…" : shown;
}

}  // namespace

std::vector<double> numbers_of(const data::Field& field, const data::Value& value) {
  const auto count = static_cast<std::int64_t>(value.bytes.size() / c10::elementSize(field.type));
  const auto tensor = at::from_blob(const_cast<std::byte*>(value.bytes.data()), {count}, at::TensorOptions(field.type));
  const auto doubles = tensor.to(at::kDouble).contiguous();
  const auto* begin = doubles.const_data_ptr<double>();
  return {begin, begin + count};
}

std::string value_text(const data::Field& field, const data::Value& value) {
  using data::Encoding;
  if (value.missing) return "missing";
  if (field.encoding == Encoding::Text) return '"' + printable(data::as_text(value.bytes)) + '"';
  if (field.encoding != Encoding::Values) {
    return fmt::format("{}, {}", data::name_of(field.encoding),
                       format_bytes(static_cast<std::int64_t>(value.bytes.size())));
  }
  const auto numbers = numbers_of(field, value);
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < std::min(numbers.size(), kNumbersShown); ++i)
    shown.push_back(fmt::format("{:.6g}", numbers[i]));
  if (numbers.size() == 1 && !field.classes.empty()) {
    const auto label = static_cast<std::size_t>(numbers[0]);
    if (numbers[0] >= 0 && label < field.classes.size()) return fmt::format("{} ({})", shown[0], field.classes[label]);
  }
  if (value.shape.empty()) return shown.empty() ? "" : shown[0];
  std::vector<std::string> sizes;
  for (const auto size : value.shape) sizes.push_back(std::to_string(size));
  return fmt::format("[{}]: {}{}", join(sizes, ", "), join(shown, " "), numbers.size() > kNumbersShown ? " …" : "");
}

}  // namespace lockstep::apps
