#include "lockstep/data/index.h"

#include <algorithm>
#include <cstring>
#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lockstep/core/hash.h"
#include "lockstep/data/decompress.h"
#include "lockstep/data/file_bytes.h"
#include "lockstep/data/index_tables.h"

namespace lockstep::data {
namespace {

using nlohmann::json;

constexpr std::string_view kMagic = "LSINDEX3";

/// Before the tables, which are packed. In native order: the file belongs to the machines of one site.
struct Front {
  char magic[8];
  std::uint64_t packed_bytes;
  std::uint64_t plain_bytes;
  std::uint64_t hash;  // of the packed bytes
};
static_assert(sizeof(Front) == Index::kFrontBytes);
/// Of deflate: 258 bytes from two bits.
constexpr std::uint64_t kBestRatio = 1032;

Front front_of(std::string_view bytes) {
  Front front{};
  if (!bytes.starts_with(kMagic) || bytes.size() < sizeof front) fail_torn_index();
  std::memcpy(&front, bytes.data(), sizeof front);
  if (front.plain_bytes / kBestRatio > front.packed_bytes) fail_torn_index();
  return front;
}

/// Leaves fractions out: one where a size is due has no value as an integer, which is no Error but anything.
bool whole_numbers_only(int, json::parse_event_t event, json& value) {
  return event != json::parse_event_t::value || !value.is_number_float();
}

/// What may be any bytes, such as a file's name: it lies behind the head as it is, since JSON would have to
/// replace what is not UTF-8. `index` may be const.
template <class AnyIndex, class Visit>
void each_text(AnyIndex& index, const Visit& visit) {
  visit(index.asked);
  visit(index.notes);
  for (auto& file : index.files) visit(file.path);
  for (auto& column : index.columns) visit(column.how);
  for (auto& field : index.schema) {
    visit(field.name);
    for (auto& name : field.classes) visit(name);
  }
}

Schema without_texts(Schema schema) {
  for (auto& field : schema) {
    field.name.clear();
    for (auto& name : field.classes) name.clear();
  }
  return schema;
}

// ---- what a reader of the index relies on -------------------------------------------------------

void check_extent(const Index& index, const Extent& extent) {
  const std::uint64_t size = extent.file == kInIndex            ? index.inline_bytes.size()
                             : extent.file < index.files.size() ? index.files[extent.file].bytes
                                                                : 0;
  const bool known = extent.file == kInIndex || extent.file < index.files.size();
  const bool fits = extent.offset <= size && extent.length <= size - extent.offset;
  if (!known || (extent.length != kAbsent && !fits)) fail_torn_index();
}

/// Its entries as one extent, from the first byte of the first to the last byte of the last.
void check_uniform(const Index& index, const Column& column, std::uint64_t samples) {
  Extent all = column.extents[0];
  const std::uint64_t step = column.step == 0 ? all.length : column.step;
  std::uint64_t to_last = 0;
  const bool impossible = all.length == kAbsent ||
                          (samples > 0 && __builtin_mul_overflow(step, samples - 1, &to_last)) ||
                          __builtin_add_overflow(all.length, to_last, &all.length) || all.length == kAbsent;
  if (impossible) fail_torn_index();
  if (samples > 0) check_extent(index, all);
}

void check_column(const Index& index, const Column& column) {
  const auto samples = static_cast<std::uint64_t>(index.samples);
  if (column.fields.empty() || column.rows_per_block == 0) fail_torn_index();
  for (const auto field : column.fields) {
    if (field >= index.schema.size()) fail_torn_index();
  }
  if (column.layout == Column::Layout::Uniform) {
    if (column.extents.size() != 1) fail_torn_index();
    return check_uniform(index, column, samples);
  }
  const bool chunks = column.layout == Column::Layout::Chunks;
  const bool blocks = column.layout == Column::Layout::Blocks || chunks;
  const std::uint64_t entries =
      blocks ? samples / column.rows_per_block + (samples % column.rows_per_block != 0) : samples;
  if (column.extents.size() != entries) fail_torn_index();
  std::uint64_t block_bytes = std::min(column.rows_per_block, samples);
  if (blocks && __builtin_mul_overflow(block_bytes, column.row_bytes, &block_bytes)) fail_torn_index();
  for (const auto& extent : column.extents) {
    if (blocks && extent.length == kAbsent) fail_torn_index();
    if (chunks && extent.length < block_bytes) fail_torn_index();
    check_extent(index, extent);
  }
}

}  // namespace

Extent Column::extent(std::int64_t entry) const {
  if (layout == Layout::Table) return extents[static_cast<std::size_t>(entry)];
  if (layout == Layout::Chunks) {
    const auto row = static_cast<std::uint64_t>(entry);
    const Extent& chunk = extents[row / rows_per_block];
    return {chunk.file, chunk.offset + row % rows_per_block * row_bytes, row_bytes};
  }
  const Extent& first = extents[0];
  const std::uint64_t apart = step == 0 ? first.length : step;
  return {first.file, first.offset + static_cast<std::uint64_t>(entry) * apart, first.length};
}

bool Index::only_arrays() const noexcept {
  return std::all_of(columns.begin(), columns.end(),
                     [](const Column& column) { return column.layout == Column::Layout::Uniform; });
}

bool Index::only_rows() const noexcept {
  return std::all_of(columns.begin(), columns.end(), [](const Column& column) {
    return column.layout == Column::Layout::Uniform || column.layout == Column::Layout::Chunks;
  });
}

void Index::add_key(std::string_view key) {
  keys_ += key;
  key_ends_.push_back(keys_.size());
}

std::string_view Index::key(std::int64_t sample) const {
  if (key_ends_.empty()) return {};
  const auto place = static_cast<std::size_t>(sample);
  const std::uint64_t begin = place == 0 ? 0 : key_ends_[place - 1];
  return std::string_view(keys_).substr(begin, key_ends_[place] - begin);
}

std::string Index::serialize() const {
  json head = {{"format", format}, {"samples", samples}, {"schema", to_json(without_texts(schema))}};
  head["files"] = json::array();
  for (const auto& file : files) head["files"].push_back({file.bytes, file.size, file.mtime_ns, file.fingerprint});
  head["columns"] = json::array();
  for (const auto& column : columns) {
    head["columns"].push_back({{"fields", column.fields},
                               {"layout", static_cast<int>(column.layout)},
                               {"step", column.step},
                               {"rows_per_block", column.rows_per_block},
                               {"row_bytes", column.row_bytes}});
  }
  std::string tables;
  append_text(tables, head.dump());
  each_text(*this, [&](const std::string& text) { append_text(tables, text); });
  append_text(tables, inline_bytes);
  append_text(tables, keys_);
  append_ends(tables, key_ends_);
  for (const auto& column : columns) append_extents(tables, column.extents);
  constexpr int kLevel = 6;
  const std::string packed = deflate_raw(as_bytes(tables), kLevel);
  Front front = {{}, packed.size(), tables.size(), hash64(packed)};
  std::memcpy(front.magic, kMagic.data(), sizeof front.magic);
  return std::string(reinterpret_cast<const char*>(&front), sizeof front) + packed;
}

std::uint64_t Index::bytes_after(std::string_view front) { return front_of(front).packed_bytes; }

Index Index::parse(std::string_view bytes) {
  const Front front = front_of(bytes);
  const std::string_view packed = bytes.substr(sizeof front);
  if (packed.size() != front.packed_bytes || hash64(packed) != front.hash) fail_torn_index();
  std::string tables(front.plain_bytes, '\0');
  inflate_raw(as_bytes(packed), std::as_writable_bytes(std::span(tables)));
  TableReader reader(as_bytes(tables));
  const auto head = json::parse(reader.text(), whole_numbers_only, false);
  Index index;
  try {
    index.format = head.at("format");
    index.samples = head.at("samples");
    index.schema = schema_from_json(head.at("schema"));
    for (const auto& file : head.at("files"))
      index.files.push_back({{}, file.at(0), file.at(1), file.at(2), file.at(3)});
    for (const auto& one : head.at("columns")) {
      Column column;
      column.fields = one.at("fields").get<std::vector<std::uint32_t>>();
      const int layout = one.at("layout");
      if (layout < 0 || layout > static_cast<int>(Column::Layout::Chunks)) fail_torn_index();
      column.layout = static_cast<Column::Layout>(layout);
      column.step = one.at("step");
      column.rows_per_block = one.at("rows_per_block");
      column.row_bytes = one.at("row_bytes");
      index.columns.push_back(std::move(column));
    }
  } catch (const json::exception&) {
    fail_torn_index();
  }
  each_text(index, [&](std::string& text) { text = reader.text(); });
  index.inline_bytes = reader.text();
  index.keys_ = reader.text();
  index.key_ends_ = reader.ends(index.keys_.size());
  for (auto& column : index.columns) column.extents = reader.extents();
  if (!reader.empty() || index.samples < 0) fail_torn_index();
  const auto samples = static_cast<std::size_t>(index.samples);
  if (!index.key_ends_.empty() && index.key_ends_.size() != samples) fail_torn_index();
  for (const auto& column : index.columns) check_column(index, column);
  return index;
}

std::string Index::serialize_checksums() const {
  std::string bytes(reinterpret_cast<const char*>(checksums.data()), checksums.size() * sizeof checksums[0]);
  const std::uint64_t hash = hash64(bytes);
  return bytes.append(reinterpret_cast<const char*>(&hash), sizeof hash);
}

void Index::parse_checksums(std::string_view bytes) {
  std::uint64_t hash = 0;
  const std::size_t table = static_cast<std::size_t>(samples) * sizeof checksums[0];
  if (bytes.size() != table + sizeof hash) fail_torn_index();
  std::memcpy(&hash, bytes.data() + table, sizeof hash);
  if (hash64(bytes.substr(0, table)) != hash) fail_torn_index();
  checksums.resize(static_cast<std::size_t>(samples));
  if (table > 0) std::memcpy(checksums.data(), bytes.data(), table);
}

}  // namespace lockstep::data
