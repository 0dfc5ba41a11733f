// Parquet: a field per column, a sample per row. Numbers are unpacked a row group at a
// time; texts and bytes are copied into the index, up to a bound.
#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/absent_format.h"
#include "lockstep/data/format.h"

#if LOCKSTEP_HAS_ARROW
#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include <arrow/api.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <parquet/arrow/reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/statistics.h>

#include "lockstep/core/error.h"
#include "lockstep/core/text.h"
#include "lockstep/data/formats/parquet_arrays.h"
#include "lockstep/data/formats/parquet_writer.h"
#include "lockstep/data/image.h"
#endif

namespace lockstep::data {
namespace {

constexpr const char* kDescription = "Parquet, a field per column, a sample per row";

std::vector<std::string> parquet_extensions() { return {".parquet"}; }

#if LOCKSTEP_HAS_ARROW

using namespace parquet_format;
using Reader = parquet::arrow::FileReader;

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;

/// Arrow throws exceptions of its own and of the standard library where a file is torn.
template <class Work>
auto with_errors(const Work& work) {
  try {
    return work();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    fail(Fault::Data, fmt::format("Parquet: {}", error.what()));
  }
}

std::unique_ptr<Reader> open_file(const std::string& path) {
  parquet::arrow::FileReaderBuilder builder;
  check(builder.OpenFile(path, true));
  auto reader = builder.Build();
  check(reader.status());
  return std::move(*reader);
}

std::shared_ptr<arrow::ChunkedArray> read_column(Reader& reader, int group, int column) {
  std::shared_ptr<arrow::ChunkedArray> array;
  check(reader.RowGroup(group)->Column(column)->Read(&array));
  return array;
}

class Scanner {
 public:
  Scanner(const std::string& path, const IndexedFile& file) : reader_(open_file(path)) {
    index_.files = {file};
    metadata_ = reader_->parquet_reader()->metadata();
    check(reader_->GetSchema(&columns_));
    if (metadata_->num_columns() != columns_->num_fields()) {
      fail(Fault::Data, fmt::format("{} columns hold {} kinds of values: nested ones are not read; flatten them",
                                    columns_->num_fields(), metadata_->num_columns()));
    }
    index_.samples = metadata_->num_rows();
  }

  Index scan(const std::vector<std::string>& fields) {
    if (index_.samples == 0) return std::move(index_);
    find_groups();
    const Schema kept = kept_schema();
    for (const int column : chosen(fields)) add(column, kept);
    return std::move(index_);
  }

 private:
  /// Random access counts in blocks of one length.
  void find_groups() {
    const int groups = metadata_->num_row_groups();
    std::int64_t all = 0;
    for (int group = 0; group < groups; ++group) {
      const std::int64_t rows = metadata_->RowGroup(group)->num_rows();
      if (group == 0) group_rows_ = rows;
      const bool last = group + 1 == groups;
      if (rows <= 0 || rows > group_rows_ || (rows != group_rows_ && !last)) {
        fail(Fault::Data, fmt::format("row group {} has {} rows, but the first has {}; write them of one length, e.g. "
                                      "with pyarrow's write_table(row_group_size={})",
                                      group, rows, group_rows_, std::min<std::int64_t>(group_rows_, 65536)));
      }
      all += rows;
    }
    if (all != index_.samples) {
      fail(Fault::Data, fmt::format("row groups have {} rows instead of {}", all, index_.samples));
    }
  }

  /// As our writer knew it.
  Schema kept_schema() const {
    const auto& kept = columns_->metadata();
    const int place = kept ? kept->FindKey(kSchemaKey) : -1;
    return place < 0 ? Schema() : schema_from_json(nlohmann::json::parse(kept->value(place), nullptr, false));
  }

  std::vector<int> chosen(const std::vector<std::string>& fields) const {
    std::vector<int> places;
    for (int column = 0; fields.empty() && column < columns_->num_fields(); ++column) places.push_back(column);
    for (const auto& field : fields) {
      places.push_back(columns_->GetFieldIndex(field));
      if (places.back() < 0) {
        fail(Fault::Usage,
             fmt::format("the file has no column '{}'{}", field, proposal(field, columns_->field_names())));
      }
    }
    return places;
  }

  /// Unless the file says that none are.
  bool some_missing(int column) const {
    if (!columns_->field(column)->nullable()) return false;
    for (int group = 0; group < metadata_->num_row_groups(); ++group) {
      const auto statistics = metadata_->RowGroup(group)->ColumnChunk(column)->statistics();
      if (!statistics || !statistics->HasNullCount() || statistics->null_count() > 0) return true;
    }
    return false;
  }

  void add(int column, const Schema& kept) {
    Field field = field_of(*columns_->field(column), some_missing(column));
    const auto known = std::find_if(kept.begin(), kept.end(), [&](const Field& one) { return one.name == field.name; });
    const bool values = field.encoding == Encoding::Values;
    const bool same =
        known != kept.end() && (values ? known->fixed() && known->type == field.type && known->bytes() == field.bytes()
                                       : known->encoding != Encoding::Values);
    if (same) field = *known;
    index_.schema.push_back(field);
    Column made = values ? blocks(column, field) : copies(column);
    made.fields = {static_cast<std::uint32_t>(index_.schema.size() - 1)};
    index_.columns.push_back(std::move(made));
    if (!same && field.encoding == Encoding::Raw) index_.schema.back().encoding = first_encoding(index_.columns.back());
  }

  Encoding first_encoding(const Column& column) const {
    const Extent& first = column.extents[0];
    if (first.length == kAbsent) return Encoding::Raw;
    return encoding_by_magic(as_bytes(index_.inline_bytes).subspan(first.offset, first.length));
  }

  Column blocks(int column, const Field& field) {
    Column made;
    made.layout = Column::Layout::Blocks;
    made.rows_per_block = static_cast<std::uint64_t>(group_rows_);
    made.row_bytes = static_cast<std::uint64_t>(field.bytes());
    made.how = std::to_string(column);
    if (made.row_bytes > kMostBytes / made.rows_per_block) {
      fail(Fault::Data,
           fmt::format("row groups of {} rows of {} are too large; write smaller ones", group_rows_, field.text()));
    }
    for (std::uint64_t group = 0; group < static_cast<std::uint64_t>(metadata_->num_row_groups()); ++group) {
      made.extents.push_back({kInIndex, index_.inline_bytes.size(), sizeof group});
      index_.inline_bytes.append(reinterpret_cast<const char*>(&group), sizeof group);
    }
    return made;
  }

  Column copies(int column) {
    Column made;
    for (int group = 0; group < metadata_->num_row_groups(); ++group) {
      const auto size = metadata_->RowGroup(group)->ColumnChunk(column)->total_uncompressed_size();
      if (size < 0 || static_cast<std::uint64_t>(size) + index_.inline_bytes.size() > kMostBytes) {
        fail(Fault::Data,
             fmt::format("'{}' has more than 1 GiB of texts or bytes, which Parquet reads a row group at a "
                         "time; pack them into tar or tfrecord files",
                         columns_->field(column)->name()));
      }
      const auto arrays = read_column(*reader_, group, column);
      for (const auto& array : arrays->chunks()) {
        each_bytes(*array, [&](std::optional<std::string_view> bytes) { append(made, bytes); });
      }
    }
    if (made.extents.size() != static_cast<std::size_t>(index_.samples)) {
      fail(Fault::Data, fmt::format("'{}' has {} values instead of {}", columns_->field(column)->name(),
                                    made.extents.size(), index_.samples));
    }
    return made;
  }

  void append(Column& column, std::optional<std::string_view> bytes) {
    column.extents.push_back({kInIndex, index_.inline_bytes.size(), bytes ? bytes->size() : kAbsent});
    if (!bytes) return;
    // Values may repeat, so that a small file holds many.
    if (bytes->size() > 2 * kMostBytes - std::min<std::uint64_t>(2 * kMostBytes, index_.inline_bytes.size())) {
      fail(Fault::Data, "texts and bytes have more than 2 GiB; pack them into tar or tfrecord files");
    }
    index_.inline_bytes += *bytes;
  }

  std::unique_ptr<Reader> reader_;
  std::shared_ptr<parquet::FileMetaData> metadata_;
  std::shared_ptr<arrow::Schema> columns_;
  std::int64_t group_rows_ = 0;
  Index index_;
};

class Parquet final : public Format {
 public:
  std::vector<std::string> extensions() const override { return parquet_extensions(); }
  bool recognises(Bytes head) const override { return as_text(head).starts_with("PAR1"); }

  Index scan(const std::string& path, const OpenOptions& options) const override {
    const IndexedFile file = scanned_file(*map_file(path));
    return with_errors([&] { return Scanner(path, file).scan(options.fields); });
  }

  std::string unpack_from(const std::string& path, const Index& index, const Column& column,
                          Bytes block) const override {
    std::uint64_t group = 0;
    if (block.size() != sizeof group) fail(Fault::Data, "the index does not say where a block lies");
    std::memcpy(&group, block.data(), sizeof group);
    const auto place = parse_integer("the column", column.how, 0, INT32_MAX);
    return with_errors([&] {
      const auto reader = open_file(path);
      if (group >= static_cast<std::uint64_t>(reader->num_row_groups())) {
        fail(Fault::Data, fmt::format("there is no row group {}", group));
      }
      std::string bytes;
      const auto array = read_column(*reader, static_cast<int>(group), static_cast<int>(place));
      for (const auto& part : array->chunks()) append_numbers(*part, index.schema[column.fields[0]], bytes);
      return bytes;
    });
  }

  std::unique_ptr<Writer> write(const std::string& path, const Schema& schema,
                                const WriteOptions& options) const override {
    return with_errors([&] { return make_writer(path, schema, options); });
  }
};

const FormatRegistry::Add registered{"parquet", kDescription, [] { return std::make_unique<Parquet>(); }};

#else

const FormatRegistry::Add registered{"parquet", kDescription, [] {
                                       return std::make_unique<AbsentFormat>(
                                           "Arrow", parquet_extensions(),
                                           "pip install pyarrow into .venv or install libparquet-dev");
                                     }};

#endif

}  // namespace
}  // namespace lockstep::data
