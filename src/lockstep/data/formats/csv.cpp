// Tables as text, a sample per row: comma-separated values and their kin. What a column
// holds is found out from all of its rows.
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/data/column_guess.h"
#include "lockstep/data/csv_rows.h"
#include "lockstep/data/decompress.h"
#include "lockstep/data/format.h"
#include "lockstep/data/number_text.h"
#include "lockstep/data/utf8.h"

namespace lockstep::data {
namespace {

using c10::ScalarType;

bool is_tsv(const std::string& path) { return name_decompressed(path).ends_with(".tsv"); }

char asked_separator(const std::string& separator) {
  if (separator == "tab" || separator == "\\t") return '\t';
  const bool one = separator.size() == 1 && static_cast<unsigned char>(separator[0]) < 0x80;
  if (!one || separator.find_first_of("\"\r\n") == 0) {
    fail(Fault::Usage,
         fmt::format("the separator '{}' is not one ASCII character that could be one; say tab for a tab", separator));
  }
  return separator[0];
}

char separator_of(const std::string& path, std::string_view text, const OpenOptions& options) {
  if (!options.separator.empty()) return asked_separator(options.separator);
  return is_tsv(path) ? '\t' : find_separator(text);
}

// ---- the scan -----------------------------------------------------------------------------------

std::vector<std::string> names_in(const CsvReader& header) {
  std::vector<std::string> names;
  std::set<std::string> known;
  for (const auto& field : header.fields()) {
    const std::string name(field.quoted ? field.plain() : std::string(trimmed(field.text)));
    const auto refuse = [&](const char* why) {
      fail(Fault::Data, fmt::format("column {} of the header in line {}, '{}', {}; if there is no header, say header = "
                                    "false (--no-header)",
                                    names.size() + 1, header.line(), is_utf8(name) ? name : "?", why));
    };
    if (name.empty()) refuse("has no name");
    if (!is_utf8(name)) refuse("is not UTF-8: convert the file, e.g. with iconv");
    if (!known.insert(name).second) refuse("has the name of a column before it");
    names.push_back(name);
  }
  return names;
}

std::vector<std::string> numbered_names(std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t column = 0; column < count; ++column) names.push_back(fmt::format("c{}", column));
  return names;
}

class TableScan {
 public:
  /// `start`: where the text begins in its file.
  TableScan(std::string_view text, std::size_t start, char separator, bool header)
      : start_(start), reader_(text, separator), separator_(separator) {
    read(header);
  }

  void into(Index& index) {
    index.samples = static_cast<std::int64_t>(extents_.size());
    Column column;
    column.how = separator_;
    column.extents = std::move(extents_);
    for (std::size_t place = 0; place < names_.size(); ++place) {
      index.schema.push_back(guesses_[place].field(names_[place]));
      column.fields.push_back(static_cast<std::uint32_t>(place));
    }
    index.columns = {std::move(column)};
  }

 private:
  void read(bool header) {
    while (reader_.next()) {
      // One empty field is a value only where a row has no more than one.
      if (reader_.row().empty() && names_.size() != 1) continue;
      if (names_.empty()) {
        names_ = header ? names_in(reader_) : numbered_names(reader_.fields().size());
        guesses_.resize(names_.size());
        first_ = header ? "the header" : fmt::format("line {}", reader_.line());
        if (header) continue;
      }
      add_row();
    }
  }

  void add_row() {
    const auto& fields = reader_.fields();
    if (fields.size() != names_.size()) {
      fail(Fault::Data,
           fmt::format("line {} has {} fields, {} has {} (at byte {}); a field that holds the separator "
                       "'{}' needs quotes",
                       reader_.line(), fields.size(), first_, names_.size(), start_ + reader_.offset(), separator_));
    }
    for (std::size_t place = 0; place < fields.size(); ++place) guesses_[place].add(fields[place].text);
    extents_.push_back({0, start_ + reader_.offset(), reader_.row().size()});
  }

  std::size_t start_;
  CsvReader reader_;
  char separator_;
  std::string first_;  // what the other rows must agree with
  std::vector<std::string> names_;
  std::vector<ColumnGuess> guesses_;
  std::vector<Extent> extents_;
};

// ---- one row ------------------------------------------------------------------------------------

template <class Number>
Number known(std::optional<Number> number, const CsvField& text, const Field& field) {
  if (!number) fail(Fault::Data, fmt::format("'{}' is none of the values of {}", text.text, field.text()));
  return *number;
}

/// `into` has room for the largest number.
Value number_in(const CsvField& text, const Field& field, std::span<std::byte> into) {
  const auto keep = [&](auto number) {
    std::memcpy(into.data(), &number, sizeof number);
    return Value{into.first(sizeof number), {}, false};
  };
  if (field.type == ScalarType::Long) return keep(known(parse_int64(text.text), text, field));
  if (field.type == ScalarType::Bool) {
    if (is_missing(text.text)) return {{}, {}, true};
    return keep(known(parse_bool(text.text), text, field));
  }
  if (is_missing(text.text)) return keep(std::numeric_limits<double>::quiet_NaN());
  return keep(known(parse_float64(text.text), text, field));
}

Value text_in(const CsvField& text, Scratch& scratch) {
  // Quotes tell a text that reads NA, or is empty, from one that is not there.
  if (!text.quoted && is_missing(text.text)) return {{}, {}, true};
  return {text.plain(scratch), {}, false};
}

// ---- writing ------------------------------------------------------------------------------------

std::vector<std::string> column_names(const Field& field) {
  if (field.encoding == Encoding::Text || (field.fixed() && field.shape.empty())) return {field.name};
  if (!field.fixed() || field.shape.size() > 1) {
    fail(Fault::Usage, fmt::format("csv cannot hold {}; use npy or npz, or tfrecord", field.text()));
  }
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < field.shape[0]; ++i) names.push_back(fmt::format("{}_{}", field.name, i));
  return names;
}

class CsvWriter final : public Writer {
 public:
  CsvWriter(const std::string& path, const Schema& schema)
      : schema_(schema), separator_(is_tsv(path) ? '\t' : ','), header_(header()), file_(path) {
    file_.write(header_);
  }

  void add(const std::string&, const Sample& sample) override {
    row_.clear();
    for (std::size_t place = 0; place < schema_.size(); ++place) add_value(schema_[place], sample.values.at(place));
    end_row(row_);
    file_.write(row_);
  }
  void finish() override { file_.commit(); }

 private:
  std::string header() const {
    std::string row;
    std::set<std::string> taken;
    for (const auto& field : schema_) {
      for (const auto& name : column_names(field)) {
        if (name.empty() || !taken.insert(name).second) {
          fail(Fault::Usage, fmt::format("two columns would be called '{}', or one has no name; rename a field", name));
        }
        append_field(row, name);
        row += separator_;
      }
    }
    if (row.empty()) fail(Fault::Usage, "a table needs a column, but there is no field");
    end_row(row);
    return row;
  }

  void add_value(const Field& field, const Value& value) {
    if (field.encoding == Encoding::Text) return add_text(value);
    const auto size = static_cast<std::size_t>(c10::elementSize(field.type));
    const auto elements = static_cast<std::size_t>(field.elements());
    if (!value.missing && value.bytes.size() != elements * size) {
      fail(Fault::Data,
           fmt::format("'{}' has {} bytes instead of {}", field.name, value.bytes.size(), elements * size));
    }
    for (std::size_t i = 0; i < elements; ++i) {
      if (!value.missing) append_number(row_, field.type, value.bytes.data() + i * size);
      row_ += separator_;
    }
  }

  void add_text(const Value& value) {
    const auto text = as_text(value.bytes);
    if (!value.missing) is_missing(text) ? append_quoted(row_, text) : append_field(row_, text);
    row_ += separator_;
  }

  /// Its last separator becomes the line end.
  static void end_row(std::string& row) { row.back() = '\n'; }

  Schema schema_;
  char separator_;
  std::string header_;
  WholeFile file_;
  std::string row_;
};

class Csv final : public Format {
 public:
  std::vector<std::string> extensions() const override { return {".csv", ".tsv"}; }

  Index scan(const std::string& path, const OpenOptions& options) const override {
    const auto file = map_file(path);
    Scratch scratch;
    auto text = as_text(whole(*file, scratch));
    if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
      fail(Fault::Data, "the text is UTF-16; convert it to UTF-8, e.g. with iconv");
    }
    const std::size_t start = byte_order_mark(text);
    text.remove_prefix(start);
    const char separator = separator_of(path, text, options);
    Index index;
    index.files = {scanned_file(*file)};
    index.notes = nlohmann::json{{"separator", std::string(1, separator)}}.dump();
    TableScan(text, start, separator, options.header).into(index);
    return index;
  }

  Schema common_schema(const std::vector<Schema>& schemas) const override {
    Schema common = schemas.at(0);
    for (const auto& schema : schemas) {
      if (schema.size() != common.size()) {
        fail(Fault::Data,
             fmt::format("files have different columns: {} and {} of them; read those with other columns by themselves",
                         common.size(), schema.size()));
      }
      for (std::size_t place = 0; place < schema.size(); ++place) {
        if (schema[place].name != common[place].name) {
          fail(Fault::Data,
               fmt::format("files have different columns: column {} is '{}' and '{}'; name and order them alike",
                           place + 1, common[place].name, schema[place].name));
        }
        common[place] = joined_column(common[place], schema[place]);
      }
    }
    return common;
  }

  void decode(const Index& index, const Column& column, Bytes bytes, Sample& sample) const override {
    const auto fields = split_row(as_text(bytes), column.how.at(0));
    const Schema& schema = index.schema;
    if (fields.size() != schema.size()) {
      fail(Fault::Data, fmt::format("the row has {} fields, the table has {}", fields.size(), schema.size()));
    }
    constexpr std::size_t kNumber = sizeof(double);
    const auto numbers = sample.scratch.take(kNumber * fields.size());
    for (std::size_t place = 0; place < fields.size(); ++place) {
      sample.values[place] = schema[place].encoding == Encoding::Text
                                 ? text_in(fields[place], sample.scratch)
                                 : number_in(fields[place], schema[place], numbers.subspan(kNumber * place, kNumber));
    }
  }

  std::unique_ptr<Writer> write(const std::string& path, const Schema& schema,
                                const WriteOptions& options) const override {
    if (!options.compression.empty()) fail(Fault::Usage, "csv is compressed as a whole: write it, then gzip it");
    return std::make_unique<CsvWriter>(path, schema);
  }
};

const FormatRegistry::Add registered{"csv", "Tables as text, comma- or tab-separated, a sample per row",
                                     [] { return std::make_unique<Csv>(); }};

}  // namespace
}  // namespace lockstep::data
