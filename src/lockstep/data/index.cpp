#include "lockstep/data/index.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lockstep/core/error.h"
#include "lockstep/core/hash.h"

namespace lockstep::data {
namespace {

using nlohmann::json;

constexpr std::string_view kMagic = "LSINDEX1";

// ---- the tables behind the head, in native order: the file belongs to the machines of one site ----

template <class Element>
void append(std::string& bytes, const std::vector<Element>& table) {
  static_assert(std::is_trivially_copyable_v<Element>);
  const std::uint64_t count = table.size();
  bytes.append(reinterpret_cast<const char*>(&count), sizeof count);
  bytes.append(reinterpret_cast<const char*>(table.data()), count * sizeof(Element));
}

void append(std::string& bytes, std::string_view text) {
  append(bytes, std::vector<std::uint64_t>{text.size()});
  bytes.append(text);
}

/// Without the padding of Extent.
std::vector<std::uint64_t> flat(const std::vector<Extent>& extents) {
  std::vector<std::uint64_t> numbers;
  numbers.reserve(extents.size() * 3);
  for (const auto& extent : extents) numbers.insert(numbers.end(), {extent.file, extent.offset, extent.length});
  return numbers;
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size()) torn();
    const auto part = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return part;
  }
  std::vector<std::uint64_t> numbers() {
    std::uint64_t count = 0;
    std::memcpy(&count, take(sizeof count).data(), sizeof count);
    if (count > bytes_.size() / sizeof(std::uint64_t)) torn();
    std::vector<std::uint64_t> table(count);
    if (count > 0) std::memcpy(table.data(), take(count * sizeof(std::uint64_t)).data(), count * sizeof(std::uint64_t));
    return table;
  }
  std::string_view text() {
    const auto length = numbers();
    if (length.size() != 1) torn();
    return take(length[0]);
  }
  bool empty() const noexcept { return bytes_.empty(); }
  [[noreturn]] static void torn() { fail(Fault::Data, "the index cannot be read"); }

 private:
  std::string_view bytes_;
};

/// Leaves fractions out: one where a size is due has no value as an integer, which is no Error but anything.
bool whole_numbers_only(int, json::parse_event_t event, json& value) {
  return event != json::parse_event_t::value || !value.is_number_float();
}

// ---- what a reader of the index relies on -------------------------------------------------------

void check_extent(const Index& index, const Extent& extent) {
  const std::uint64_t size = extent.file == kInIndex            ? index.inline_bytes.size()
                             : extent.file < index.files.size() ? index.files[extent.file].bytes
                                                                : 0;
  const bool known = extent.file == kInIndex || extent.file < index.files.size();
  const bool fits = extent.offset <= size && extent.length <= size - extent.offset;
  if (!known || (extent.length != kAbsent && !fits)) Reader::torn();
}

/// Its entries as one extent, from the first byte of the first to the last byte of the last.
void check_uniform(const Index& index, const Column& column, std::uint64_t samples) {
  Extent all = column.extents[0];
  const std::uint64_t step = column.step == 0 ? all.length : column.step;
  std::uint64_t to_last = 0;
  const bool impossible = all.length == kAbsent ||
                          (samples > 0 && __builtin_mul_overflow(step, samples - 1, &to_last)) ||
                          __builtin_add_overflow(all.length, to_last, &all.length) || all.length == kAbsent;
  if (impossible) Reader::torn();
  if (samples > 0) check_extent(index, all);
}

void check_column(const Index& index, const Column& column) {
  const auto samples = static_cast<std::uint64_t>(index.samples);
  if (column.fields.empty() || column.rows_per_block == 0) Reader::torn();
  for (const auto field : column.fields) {
    if (field >= index.schema.size()) Reader::torn();
  }
  if (column.layout == Column::Layout::Uniform) {
    if (column.extents.size() != 1) Reader::torn();
    return check_uniform(index, column, samples);
  }
  const bool chunks = column.layout == Column::Layout::Chunks;
  const bool blocks = column.layout == Column::Layout::Blocks || chunks;
  const std::uint64_t entries =
      blocks ? samples / column.rows_per_block + (samples % column.rows_per_block != 0) : samples;
  if (column.extents.size() != entries) Reader::torn();
  std::uint64_t block_bytes = std::min(column.rows_per_block, samples);
  if (blocks && __builtin_mul_overflow(block_bytes, column.row_bytes, &block_bytes)) Reader::torn();
  for (const auto& extent : column.extents) {
    if (blocks && extent.length == kAbsent) Reader::torn();
    if (chunks && extent.length < block_bytes) Reader::torn();
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
  json head = {
      {"format", format}, {"asked", asked}, {"samples", samples}, {"schema", to_json(schema)}, {"notes", notes}};
  head["files"] = json::array();
  for (const auto& file : files)
    head["files"].push_back({file.path, file.bytes, file.size, file.mtime_ns, file.fingerprint});
  head["columns"] = json::array();
  for (const auto& column : columns) {
    head["columns"].push_back({{"fields", column.fields},
                               {"layout", static_cast<int>(column.layout)},
                               {"step", column.step},
                               {"rows_per_block", column.rows_per_block},
                               {"row_bytes", column.row_bytes},
                               {"how", column.how}});
  }
  std::string bytes(kMagic);
  // A file's name may be any bytes; as JSON text it must be replaced by something.
  append(bytes, std::string_view(head.dump(-1, ' ', false, json::error_handler_t::replace)));
  append(bytes, inline_bytes);
  append(bytes, keys_);
  append(bytes, key_ends_);
  append(bytes, checksums);
  for (const auto& column : columns) append(bytes, flat(column.extents));
  append(bytes, std::vector<std::uint64_t>{hash64(bytes)});
  return bytes;
}

Index Index::parse(std::string_view bytes) {
  constexpr std::size_t kTail = 2 * sizeof(std::uint64_t);
  if (!bytes.starts_with(kMagic) || bytes.size() < kMagic.size() + kTail) Reader::torn();
  Reader tail(bytes.substr(bytes.size() - kTail));
  if (tail.numbers() != std::vector<std::uint64_t>{hash64(bytes.substr(0, bytes.size() - kTail))}) Reader::torn();
  Reader reader(bytes.substr(kMagic.size(), bytes.size() - kMagic.size() - kTail));
  const auto head = json::parse(reader.text(), whole_numbers_only, false);
  Index index;
  try {
    index.format = head.at("format");
    index.asked = head.at("asked");
    index.samples = head.at("samples");
    index.schema = schema_from_json(head.at("schema"));
    index.notes = head.at("notes");
    for (const auto& file : head.at("files"))
      index.files.push_back({file.at(0), file.at(1), file.at(2), file.at(3), file.at(4)});
    for (const auto& one : head.at("columns")) {
      Column column;
      column.fields = one.at("fields").get<std::vector<std::uint32_t>>();
      const int layout = one.at("layout");
      if (layout < 0 || layout > static_cast<int>(Column::Layout::Chunks)) Reader::torn();
      column.layout = static_cast<Column::Layout>(layout);
      column.step = one.at("step");
      column.rows_per_block = one.at("rows_per_block");
      column.row_bytes = one.at("row_bytes");
      column.how = one.at("how");
      index.columns.push_back(std::move(column));
    }
  } catch (const json::exception&) {
    Reader::torn();
  }
  index.inline_bytes = reader.text();
  index.keys_ = reader.text();
  index.key_ends_ = reader.numbers();
  index.checksums = reader.numbers();
  for (auto& column : index.columns) {
    const auto numbers = reader.numbers();
    if (numbers.size() % 3 != 0) Reader::torn();
    column.extents.reserve(numbers.size() / 3);
    for (std::size_t i = 0; i < numbers.size(); i += 3) {
      if (numbers[i] > UINT32_MAX) Reader::torn();
      column.extents.push_back({static_cast<std::uint32_t>(numbers[i]), numbers[i + 1], numbers[i + 2]});
    }
  }
  if (!reader.empty() || index.samples < 0) Reader::torn();
  const auto samples = static_cast<std::size_t>(index.samples);
  if (!index.checksums.empty() && index.checksums.size() != samples) Reader::torn();
  if (!index.key_ends_.empty() && index.key_ends_.size() != samples) Reader::torn();
  std::uint64_t before = 0;
  for (const auto end : index.key_ends_) {
    if (end < before || end > index.keys_.size()) Reader::torn();
    before = end;
  }
  for (const auto& column : index.columns) check_column(index, column);
  return index;
}

}  // namespace lockstep::data
