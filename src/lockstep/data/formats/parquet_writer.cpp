#if LOCKSTEP_HAS_ARROW
#include "lockstep/data/formats/parquet_writer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <arrow/util/io_util.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <parquet/arrow/writer.h>

#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/data/aside_path.h"
#include "lockstep/data/formats/parquet_arrays.h"

namespace lockstep::data::parquet_format {
namespace {

constexpr std::int64_t kGroupBytes = std::int64_t{16} << 20;
constexpr std::int64_t kMostRows = 65536;
/// What a text or an image may have; rows of a group are counted, not weighed, to be equal in all.
constexpr std::int64_t kGuessedBytes = 16 << 10;

std::int64_t rows_of_group(const Schema& schema) {
  std::int64_t row = 0;
  for (const auto& field : schema) row += field.encoding == Encoding::Values ? field.bytes() : kGuessedBytes;
  return std::clamp<std::int64_t>(kGroupBytes / std::max<std::int64_t>(1, row), 1, kMostRows);
}

parquet::Compression::type compression_named(const std::string& name) {
  if (name.empty()) return parquet::Compression::UNCOMPRESSED;
  if (name == "snappy") return parquet::Compression::SNAPPY;
  if (name == "zstd") return parquet::Compression::ZSTD;
  if (name == "gzip") return parquet::Compression::GZIP;
  fail(Fault::Usage, fmt::format("Parquet is compressed by snappy, zstd or gzip, not by '{}'", name));
}

class ParquetWriter final : public Writer {
 public:
  ParquetWriter(const std::string& path, Schema schema, const WriteOptions& options)
      : path_(path), schema_(std::move(schema)), group_rows_(rows_of_group(schema_)), aside_(path) {
    arrow::FieldVector columns;
    for (const auto& field : schema_) columns.push_back(column_of(field));
    const auto kept = arrow::key_value_metadata({kSchemaKey}, {to_json(schema_).dump()});
    columns_ = arrow::schema(columns, kept);
    for (const auto& column : columns) {
      check(arrow::MakeBuilder(arrow::default_memory_pool(), column->type(), &builders_.emplace_back()));
    }
    auto properties = parquet::WriterProperties::Builder();
    properties.compression(compression_named(options.compression));
    if (options.level >= 0) properties.compression_level(options.level);
    const auto stored = parquet::ArrowWriterProperties::Builder().store_schema()->build();
    auto file = arrow::io::FileOutputStream::Open(aside_.path());
    check_written(file.status());
    file_ = *file;
    auto writer =
        parquet::arrow::FileWriter::Open(*columns_, arrow::default_memory_pool(), file_, properties.build(), stored);
    check_written(writer.status());
    writer_ = std::move(*writer);
  }

  void add(const std::string&, const Sample& sample) override {
    for (std::size_t place = 0; place < schema_.size(); ++place) {
      append_value(schema_[place], sample.values.at(place), *builders_[place]);
    }
    if (++waiting_ == group_rows_) flush();
  }

  void finish() override {
    flush();
    check_written(writer_->Close());
    check_written(file_->Close());
    aside_.commit();
  }

 private:
  /// Arrow's own words name neither the file nor the reason.
  void check_written(const arrow::Status& status) const {
    if (const int error = arrow::internal::ErrnoFromStatus(status); error != 0) fail_to_write(path_, error);
    check(status);
  }
  void flush() {
    if (waiting_ == 0) return;
    arrow::ArrayVector arrays(builders_.size());
    for (std::size_t place = 0; place < builders_.size(); ++place) check(builders_[place]->Finish(&arrays[place]));
    check_written(writer_->WriteTable(*arrow::Table::Make(columns_, arrays, waiting_), waiting_));
    waiting_ = 0;
  }

  std::string path_;
  Schema schema_;
  std::int64_t group_rows_;
  AsidePath aside_;
  std::shared_ptr<arrow::Schema> columns_;
  std::vector<std::unique_ptr<arrow::ArrayBuilder>> builders_;
  std::shared_ptr<arrow::io::FileOutputStream> file_;
  std::unique_ptr<parquet::arrow::FileWriter> writer_;
  std::int64_t waiting_ = 0;
};

}  // namespace

std::unique_ptr<Writer> make_writer(const std::string& path, const Schema& schema, const WriteOptions& options) {
  return std::make_unique<ParquetWriter>(path, schema, options);
}

}  // namespace lockstep::data::parquet_format
#endif
