// tests/fuzz/index_fuzz.cpp
//
// Feeds any bytes to the reader of side indices. The hash would stop nearly every input
// at the door, so each is also tried as the tables that such a file packs. What is accepted must
// point into its files only, and survive being written and read again.
#include "format_fuzz.h"
#include "lockstep/data/decompress.h"
#include "lockstep/data/index.h"

namespace {

using namespace lockstep;
using namespace lockstep::data;

void check(bool holds) {
  if (!holds) std::abort();
}

void check_entry(const Index& index, const Extent& extent) {
  if (extent.length == kAbsent) return;
  check(extent.file == kInIndex || extent.file < index.files.size());
  const std::uint64_t size = extent.file == kInIndex ? index.inline_bytes.size() : index.files[extent.file].bytes;
  check(extent.offset <= size && extent.length <= size - extent.offset);
}

void check_index(const std::string& bytes) {
  Index index;
  if (!done_or_data_error([&] { index = Index::parse(bytes); })) return;
  for (const auto& column : index.columns) {
    check(!column.fields.empty());
    for (const auto field : column.fields) check(field < index.schema.size());
    const bool blocks = column.layout == Column::Layout::Blocks;
    for (std::int64_t sample = 0; sample < std::min<std::int64_t>(index.samples, 1000); ++sample) {
      const auto last = index.samples - 1 - sample;
      const auto block = static_cast<std::size_t>(static_cast<std::uint64_t>(last) / column.rows_per_block);
      check_entry(index, blocks ? column.extents.at(block) : column.extent(last));
      check(index.key(last).size() <= bytes.size());
    }
  }
  for (const auto& field : index.schema) check(!field.fixed() || field.bytes() >= 0);
  const std::string written = index.serialize();
  check(Index::parse(written).serialize() == written);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  check_index(bytes);
  // The same bytes as tables: packed, and with a front that is right.
  const std::string packed = deflate_raw(as_bytes(bytes), 1);
  const std::uint64_t numbers[] = {packed.size(), size, hash64(packed)};
  check_index("LSINDEX3" + std::string(reinterpret_cast<const char*>(numbers), sizeof numbers) + packed);
  return 0;
}
