// lockstep/data/index.h
//
// An Index says where the samples of a source lie, so that any of them is read alone:
// made by one scan of the source, kept in a side file (index_cache.h). A column of the
// index is what is read together: one field whose bytes lie as they are, or a record
// that holds several. Sample i of the source is entry i of every column.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/field.h"
#include "lockstep/data/sample.h"

namespace lockstep::data {

struct Extent {
  std::uint32_t file = 0;  // in Index::files; kInIndex: in Index::inline_bytes
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  bool operator==(const Extent&) const = default;
};
inline constexpr std::uint32_t kInIndex = UINT32_MAX;
/// The length of what a sample does not have.
inline constexpr std::uint64_t kAbsent = UINT64_MAX;

struct Column {
  enum class Layout : std::uint8_t {
    Uniform,  // entry i lies at offset + i * step of extents[0]
    Table,    // entry i is extents[i]
    Blocks,   // entry i is row i % rows_per_block of what block extents[i / rows_per_block] unpacks to
    Chunks,   // entry i is row i % rows_per_block of extents[i / rows_per_block] as it lies there
  };
  std::vector<std::uint32_t> fields;  // places in the schema
  Layout layout = Layout::Table;
  std::vector<Extent> extents;
  std::uint64_t step = 0;            // of Uniform, from one entry to the next; 0: as long as an entry is
  std::uint64_t rows_per_block = 1;  // of Blocks and Chunks
  std::uint64_t row_bytes = 0;       // of Blocks, unpacked, and Chunks
  std::string how;                   // how its bytes are packed, in words of the format's own

  /// Of all but Blocks.
  Extent extent(std::int64_t entry) const;
};

struct IndexedFile {
  std::string path;         // relative to the source's folder
  std::uint64_t bytes = 0;  // as they are read: decompressed
  std::uint64_t size = 0;   // on the disk
  std::int64_t mtime_ns = 0;
  std::uint64_t fingerprint = 0;  // of its first and last bytes on the disk
  bool operator==(const IndexedFile&) const = default;
};

struct Index {
  std::string format;
  std::string asked;  // the options of the scan, in words
  std::vector<IndexedFile> files;
  Schema schema;
  std::int64_t samples = 0;
  std::vector<Column> columns;
  std::vector<std::uint64_t> checksums;  // hash64 of a sample's bytes, by sample; empty: not taken, or not read
  std::string inline_bytes;              // values that lie in no file, such as the class of a folder
  std::string notes;                     // the format's own, e.g. how a CSV file is separated

  void add_key(std::string_view key);
  /// Empty if the source has none.
  std::string_view key(std::int64_t sample) const;
  bool has_keys() const noexcept { return !key_ends_.empty(); }
  /// Nothing but arrays: every column is Uniform.
  bool only_arrays() const noexcept;
  /// Nothing but rows of arrays that are read as they lie: every column is Uniform or Chunks.
  bool only_rows() const noexcept;

  /// All but the checksums, which only few want to read.
  std::string serialize() const;
  /// Fault::Data on anything but what serialize() wrote: every extent lies in its file.
  static Index parse(std::string_view bytes);
  /// How many bytes of serialize() follow the first kFrontBytes.
  static std::uint64_t bytes_after(std::string_view front);
  static constexpr std::size_t kFrontBytes = 32;

  std::string serialize_checksums() const;
  void parse_checksums(std::string_view bytes);

 private:
  std::string keys_;  // one behind the other
  std::vector<std::uint64_t> key_ends_;
};

}  // namespace lockstep::data
