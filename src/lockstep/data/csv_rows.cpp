#include "lockstep/data/csv_rows.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/data/file_bytes.h"
#include "lockstep/data/utf8.h"

namespace lockstep::data {
namespace {

constexpr std::string_view kSeparators = ",;\t|";
constexpr int kRowsToTry = 20;

/// How many fields all of the first rows have; 0 if they differ or cannot be read so.
std::size_t common_width(std::string_view text, char separator) {
  CsvReader reader(text, separator);
  std::size_t width = 0;
  try {
    for (int row = 0; row < kRowsToTry && reader.next(); ++row) {
      if (reader.row().empty()) continue;
      if (width != 0 && reader.fields().size() != width) return 0;
      width = reader.fields().size();
    }
  } catch (const Error&) {
    return 0;
  }
  return width;
}

}  // namespace

std::string CsvField::plain() const {
  std::string result;
  result.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    result += text[at];
    if (doubled && text[at] == '"') ++at;
  }
  return result;
}

Bytes CsvField::plain(Scratch& scratch) const {
  if (!doubled) return as_bytes(text);
  const std::string result = plain();
  const auto copy = scratch.take(result.size());
  if (!result.empty()) std::memcpy(copy.data(), result.data(), result.size());
  return copy;
}

bool CsvReader::at_line_end() const noexcept {
  const auto rest = text_.substr(at_, 2);
  return rest.empty() || rest[0] == '\n' || rest == "\r\n";
}

void CsvReader::take_quoted() {
  const std::size_t open = at_++;
  CsvField field{{}, true, false};
  std::size_t close = text_.find('"', at_);
  for (; close != std::string_view::npos && text_.substr(close + 1, 1) == "\""; close = text_.find('"', close + 2)) {
    field.doubled = true;
  }
  if (close == std::string_view::npos) {
    fail(Fault::Data, fmt::format("the quote that opens in line {} at byte {} is never closed", next_line_, open));
  }
  field.text = text_.substr(at_, close - at_);
  next_line_ += static_cast<std::uint64_t>(std::count(field.text.begin(), field.text.end(), '\n'));
  at_ = close + 1;
  if (!at_line_end() && text_[at_] != separator_) {
    fail(Fault::Data, fmt::format("line {} goes on behind a closing quote at byte {}; a quote inside of quotes is "
                                  "written twice",
                                  next_line_, close));
  }
  fields_.push_back(field);
}

void CsvReader::take_field() {
  if (at_ < text_.size() && text_[at_] == '"') return take_quoted();
  const char* const begin = text_.data() + at_;
  const char* const stop = text_.data() + text_.size();
  const char* end = begin;
  while (end != stop && *end != separator_ && *end != '\n') ++end;
  if (end != stop && *end == '\n' && end != begin && end[-1] == '\r') --end;
  const auto length = static_cast<std::size_t>(end - begin);
  fields_.push_back({{begin, length}, false, false});
  at_ += length;
}

bool CsvReader::next() {
  if (at_ == text_.size()) return false;
  fields_.clear();
  begin_ = at_;
  line_ = next_line_;
  for (take_field(); !at_line_end(); take_field()) ++at_;
  end_ = at_;
  if (at_ < text_.size()) at_ += text_[at_] == '\r' ? 2 : 1;
  ++next_line_;
  return true;
}

CsvFields split_row(std::string_view row, char separator) {
  CsvReader reader(row, separator);
  if (!reader.next()) return {CsvField{}};
  return reader.fields();
}

char find_separator(std::string_view text) {
  char best = kSeparators[0];
  std::size_t most = 1;
  for (const char separator : kSeparators) {
    const std::size_t width = common_width(text, separator);
    if (width <= most) continue;
    most = width;
    best = separator;
  }
  return best;
}

void append_quoted(std::string& row, std::string_view text) {
  row += '"';
  for (const char letter : text) row.append(letter == '"' ? 2 : 1, letter);
  row += '"';
}

void append_field(std::string& row, std::string_view text) {
  const bool blank_around = !text.empty() && (text.front() == ' ' || text.back() == ' ');
  const bool special = text.find_first_of("\"\r\n,;\t|") != std::string_view::npos;
  // At the very front of a file, a mark would be taken for the file's.
  if (blank_around || special || byte_order_mark(text) > 0) return append_quoted(row, text);
  row += text;
}

}  // namespace lockstep::data
