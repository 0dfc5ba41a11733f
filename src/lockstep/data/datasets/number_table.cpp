#include "lockstep/data/datasets/number_table.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "lockstep/core/error.h"

namespace lockstep::data {
namespace {

constexpr std::string_view kBetween = ", \t\r";

void add_line(std::string_view line, std::size_t number, NumberTable& table) {
  const std::size_t before = table.numbers.size();
  while (true) {
    line.remove_prefix(std::min(line.find_first_not_of(kBetween), line.size()));
    if (line.empty()) break;
    double value = 0;
    const auto [stop, code] = std::from_chars(line.data(), line.data() + line.size(), value);
    const auto used = static_cast<std::size_t>(stop - line.data());
    if (code != std::errc() || (used < line.size() && kBetween.find(line[used]) == std::string_view::npos)) {
      fail(Fault::Data, fmt::format("line {} has '{}' where a number is expected", number, line.substr(0, 20)));
    }
    table.numbers.push_back(value);
    line.remove_prefix(used);
  }
  const std::size_t columns = table.numbers.size() - before;
  if (columns == 0) return;
  if (table.columns == 0) table.columns = columns;
  if (columns != table.columns) {
    fail(Fault::Data, fmt::format("line {} has {} numbers, those before it {}", number, columns, table.columns));
  }
}

}  // namespace

NumberTable parse_numbers(std::string_view text) {
  NumberTable table;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    add_line(text.substr(0, end), number, table);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return table;
}

}  // namespace lockstep::data
