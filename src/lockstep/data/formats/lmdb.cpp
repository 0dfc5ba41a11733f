// LMDB: a sample per key. Values of one kind are a field; records that we wrote have
// several (sample_record.h).
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/data/format.h"
#include "lockstep/data/formats/lmdb_pages.h"
#include "lockstep/data/formats/lmdb_writer.h"
#include "lockstep/data/image.h"
#include "lockstep/data/sample_record.h"
#include "lockstep/data/utf8.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRecords = "records";  // in Column::how

std::string file_of(const std::string& path) { return fs::is_directory(path) ? path + "/data.mdb" : path; }

/// As it is if it can be printed, else as hex.
std::string readable(std::string_view key) {
  if (std::all_of(key.begin(), key.end(), [](char c) { return c >= ' ' && c <= '~'; })) return std::string(key);
  std::string hex;
  for (const unsigned char c : key) hex += fmt::format("{:02x}", c);
  return hex;
}

/// What all values so far are.
class Kind {
 public:
  void note(Bytes value) {
    const Encoding encoding = encoding_by_magic(value);
    if (!first_) first_ = encoding;
    same_ = same_ && encoding == *first_;
    text_ = text_ && is_utf8(as_text(value));
  }
  Field field() const {
    const bool image = same_ && first_.value_or(Encoding::Raw) != Encoding::Raw;
    if (image) return {"image", *first_};
    return {"value", text_ ? Encoding::Text : Encoding::Raw};
  }

 private:
  std::optional<Encoding> first_;
  bool same_ = true, text_ = true;
};

class Lmdb final : public Format {
 public:
  std::vector<std::string> extensions() const override { return {".lmdb", ".mdb"}; }
  bool recognises(Bytes head) const override { return lmdb::is_lmdb(head); }
  bool recognises_folder(const std::string& path) const override { return is_there(path + "/data.mdb"); }

  Index scan(const std::string& path, const OpenOptions&) const override {
    const auto file = map_file(file_of(path));
    Scratch scratch;
    const Bytes bytes = whole(*file, scratch);
    Index index;
    index.files = {scanned_file(*file)};
    Column column;
    lmdb::each_entry(bytes, [&](const lmdb::Entry& entry) {
      index.add_key(readable(entry.key));
      column.extents.push_back({0, entry.offset, entry.length});
    });
    index.samples = static_cast<std::int64_t>(column.extents.size());
    if (index.samples == 0) return index;
    find_fields(bytes, index, column);
    for (std::uint32_t field = 0; field < index.schema.size(); ++field) column.fields.push_back(field);
    index.columns.push_back(std::move(column));
    return index;
  }

  void decode(const Index& index, const Column& column, Bytes bytes, Sample& sample) const override {
    if (column.how != kRecords) return Format::decode(index, column, bytes, sample);
    for (auto& value : sample.values) value.missing = true;
    for (const auto& [field, value] : parse_record(bytes)) {
      sample.values[place_of(index.schema, field.name)] = {value, Shape(field.shape.begin(), field.shape.end()), false};
    }
  }

  std::unique_ptr<Writer> write(const std::string& path, const Schema& schema,
                                const WriteOptions& options) const override {
    if (!options.compression.empty()) fail(Fault::Usage, "LMDB cannot be compressed; hdf5 and zip can");
    return lmdb::make_writer(path, schema);
  }

 private:
  static void find_fields(Bytes file, Index& index, Column& column) {
    const auto value = [&](std::size_t i) { return file.subspan(column.extents[i].offset, column.extents[i].length); };
    const bool records = is_record(value(0));
    Kind kind;
    for (std::size_t i = 0; i < column.extents.size(); ++i) {
      if (!records) {
        kind.note(value(i));
        continue;
      }
      try {
        widen(index.schema, parse_record(value(i)));
      } catch (Error& error) {
        throw error.during(fmt::format("reading key '{}'", index.key(static_cast<std::int64_t>(i))));
      }
    }
    if (records) column.how = kRecords;
    if (!records) index.schema = {kind.field()};
  }
};

const FormatRegistry::Add registered{"lmdb", "LMDB, a sample per key", [] { return std::make_unique<Lmdb>(); }};

}  // namespace
}  // namespace lockstep::data
