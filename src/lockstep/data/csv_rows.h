// lockstep/data/csv_rows.h
//
// Text in rows of separated fields, by RFC 4180: a field in quotes may hold separators,
// line ends and, written twice, quotes. Lines end in LF or CRLF. A quote inside a field
// that does not begin with one stands for itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <c10/util/SmallVector.h>

#include "lockstep/data/sample.h"

namespace lockstep::data {

struct CsvField {
  std::string_view text;  // without the quotes around it
  bool quoted = false;
  bool doubled = false;  // it holds quotes, each of them twice

  std::string plain() const;
  /// The same, in `scratch` if it must be changed.
  Bytes plain(Scratch& scratch) const;
};
using CsvFields = c10::SmallVector<CsvField, 16>;

class CsvReader {
 public:
  CsvReader(std::string_view text, char separator) noexcept : text_(text), separator_(separator) {}

  /// To the next row; false at the end. Fault::Data, naming line and byte, if its quotes do not match.
  bool next();

  /// Of the row that the reader stands at.
  const CsvFields& fields() const noexcept { return fields_; }
  std::size_t offset() const noexcept { return begin_; }
  /// Without its line end.
  std::string_view row() const noexcept { return text_.substr(begin_, end_ - begin_); }
  /// The number of its first line, from 1.
  std::uint64_t line() const noexcept { return line_; }

 private:
  void take_field();
  void take_quoted();
  bool at_line_end() const noexcept;

  std::string_view text_;
  char separator_;
  CsvFields fields_;
  std::size_t at_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint64_t line_ = 1;
  std::uint64_t next_line_ = 1;
};

/// Of one row that a CsvReader found.
CsvFields split_row(std::string_view row, char separator);

/// Which of , ; tab and | splits the first rows into equally many fields, and into the most.
char find_separator(std::string_view text);

/// In quotes if a reader could take it for something else.
void append_field(std::string& row, std::string_view text);
void append_quoted(std::string& row, std::string_view text);

}  // namespace lockstep::data
