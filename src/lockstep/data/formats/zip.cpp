// A zip archive whose members with one key are a sample, named as in WebDataset. A field
// with deflated members has two columns: how each member is packed, kept in the index,
// and the packed bytes. They are decoded in that order, the first one into the second.
#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/data/decompress.h"
#include "lockstep/data/format.h"
#include "lockstep/data/member_groups.h"
#include "lockstep/data/on_threads.h"
#include "lockstep/data/zip_directory.h"

namespace lockstep::data {
namespace {

constexpr std::string_view kPacking = "packing", kPacked = "packed ";
/// For arrays, so that their rows are aligned in memory.
constexpr std::uint64_t kAlignment = 64;

/// The packing of a column's members, with the samples they belong to.
using Packings = std::vector<std::pair<std::int64_t, ZipPacking>>;

/// Of stored members; deflated ones are checked when they are unpacked.
void check_stored(const Index& index, const Column& column, const Packings& packings, Bytes archive) {
  on_threads(static_cast<std::int64_t>(packings.size()), [&](std::int64_t item, Sample& own) {
    const auto& [sample, packing] = packings[static_cast<std::size_t>(item)];
    if (packing.method != kStored) return;
    const Extent extent = column.extent(sample);
    try {
      unpack_member(packing, archive.subspan(extent.offset, extent.length), own.scratch);
    } catch (Error& error) {
      throw error.during(fmt::format("reading '{}' of '{}'", index.schema[column.fields[0]].name, index.key(sample)));
    }
  });
}

Column packing_column(Index& index, const Column& packed, const Packings& packings) {
  Column column;
  column.fields = packed.fields;
  column.how = kPacking;
  column.extents.assign(packed.extents.size(), {kInIndex, 0, kAbsent});
  for (const auto& [sample, packing] : packings) {
    column.extents[static_cast<std::size_t>(sample)] = {kInIndex, index.inline_bytes.size(), sizeof packing};
    index.inline_bytes.append(reinterpret_cast<const char*>(&packing), sizeof packing);
  }
  return column;
}

/// Before each column that has deflated members.
void add_packing(Index& index, const std::vector<Packings>& packings) {
  std::vector<Column> columns;
  for (std::size_t place = 0; place < packings.size(); ++place) {
    Column& column = index.columns[place];
    if (std::any_of(packings[place].begin(), packings[place].end(),
                    [](const auto& one) { return one.second.method != kStored; })) {
      columns.push_back(packing_column(index, column, packings[place]));
      column.how.insert(0, kPacked);
    }
    columns.push_back(std::move(column));
  }
  index.columns = std::move(columns);
}

ZipPacking packing_in(Bytes bytes) {
  ZipPacking packing;
  if (bytes.size() != sizeof packing) fail(Fault::Data, "the index does not say how a member is packed");
  std::memcpy(&packing, bytes.data(), sizeof packing);
  return packing;
}

class ZipWriter final : public MemberWriter {
 public:
  ZipWriter(const std::string& path, const Schema& schema, const WriteOptions& options)
      : MemberWriter(schema), file_(path), deflate_(!options.compression.empty()), level_(options.level) {}

  void finish() override { file_.finish(); }

 protected:
  void put(const std::string& name, std::string_view bytes) override {
    const ZipPacking packing = {0, bytes.size(), crc32_of(as_bytes(bytes)), kStored};
    ZipMember member = {name, 0, bytes.size(), packing, true};
    std::string packed;
    if (deflate_) packed = deflate_raw(as_bytes(bytes), level_);
    // Images are compressed already, and would only get longer.
    if (deflate_ && packed.size() < bytes.size()) {
      member.packing.method = kDeflated;
      member.packed_bytes = packed.size();
      bytes = packed;
    }
    file_.begin(std::move(member), name.ends_with(".npy") ? kAlignment : 1);
    file_.write(bytes);
  }

 private:
  ZipFile file_;
  bool deflate_;
  int level_;
};

class Zip final : public Format {
 public:
  std::vector<std::string> extensions() const override { return {".zip"}; }
  bool recognises(Bytes head) const override { return is_zip(head); }

  Index scan(const std::string& path, const OpenOptions&) const override {
    const auto file = map_file(path);
    Scratch scratch;
    const Bytes archive = whole(*file, scratch);
    Index index;
    index.files = {scanned_file(*file)};
    MemberGroups groups(index);
    std::vector<Packings> packings;
    ZipReader reader(archive);
    while (const auto member = reader.next()) {
      if (!member->regular) continue;
      std::string front;
      const auto column = groups.add(
          {member->name, member->packing.header_offset, {0, member->data_offset, member->packed_bytes}}, [&] {
            front = front_of_member(*member, archive);
            return as_bytes(front);
          });
      if (!column) continue;
      packings.resize(index.columns.size());
      packings[*column].emplace_back(index.samples - 1, member->packing);
    }
    for (std::size_t place = 0; place < packings.size(); ++place) {
      check_stored(index, index.columns[place], packings[place], archive);
    }
    add_packing(index, packings);
    return index;
  }

  void decode(const Index& index, const Column& column, Bytes bytes, Sample& sample) const override {
    Value& value = sample.values[column.fields[0]];
    std::string_view how = column.how;
    if (how == kPacking) {
      value.bytes = bytes;
      return;
    }
    if (how.starts_with(kPacked)) {
      bytes = unpack_member(packing_in(value.bytes), bytes, sample.scratch);
      how.remove_prefix(kPacked.size());
    }
    decode_member(index, column, how, bytes, sample);
  }
  Schema common_schema(const std::vector<Schema>& schemas) const override {
    return Format::common_schema(with_joined_shapes(schemas));
  }

  std::unique_ptr<Writer> write(const std::string& path, const Schema& schema,
                                const WriteOptions& options) const override {
    check_zip_compression(options.compression);
    return std::make_unique<ZipWriter>(path, schema, options);
  }
};

const FormatRegistry::Add registered{"zip", "Zip archive: the files of a sample have one name, fields by extension",
                                     [] { return std::make_unique<Zip>(); }};

}  // namespace
}  // namespace lockstep::data
