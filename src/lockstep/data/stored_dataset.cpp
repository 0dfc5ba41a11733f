#include "lockstep/data/stored_dataset.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/hash.h"
#include "lockstep/data/decompress.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlockCacheBytes = std::size_t{512} << 20;
/// More files of one source are small, and opened at each read.
constexpr std::size_t kMostOpenFiles = 256;
/// A quarter of what Linux lets a process map.
constexpr std::size_t kMostMappedFiles = 16'384;

/// How many files may stay open; half of what the process may have is left to everybody else.
std::size_t most_open_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kMostOpenFiles;
  return limit.rlim_cur / 2;
}

std::vector<std::shared_ptr<const FileBytes>> files_of(const std::string& path, const Index& index,
                                                       std::size_t together) {
  const fs::path folder = folder_of(path);
  const bool arrays = index.only_rows();
  const bool many = index.files.size() > kMostOpenFiles || together > (arrays ? kMostMappedFiles : most_open_files());
  std::vector<std::shared_ptr<const FileBytes>> files;
  for (const auto& file : index.files) {
    const std::string where = (folder / file.path).string();
    const bool plain = many && !is_compressed_name(where);  // which has no file open
    files.push_back(plain ? plain_file(where, file.bytes) : arrays ? open_array_file(where) : open_file(where));
  }
  return files;
}

/// One for each column that lies in blocks.
std::size_t blocks_of_row(const Index& index) {
  return static_cast<std::size_t>(std::count_if(index.columns.begin(), index.columns.end(), [](const Column& column) {
    return column.layout == Column::Layout::Blocks;
  }));
}

}  // namespace

std::string folder_of(const std::string& path) {
  return fs::is_directory(path) ? path : fs::path(path).parent_path().string();
}

StoredDataset::StoredDataset(const std::string& path, Index index, std::size_t together)
    : path_(path),
      index_(std::move(index)),
      format_(format_named(index_.format)),
      files_(files_of(path, index_, together)),
      blocks_(kBlockCacheBytes, blocks_of_row(index_)) {}

StoredDataset::StoredDataset(const std::string& path, Index index, std::vector<std::shared_ptr<const FileBytes>> files)
    : path_(path),
      index_(std::move(index)),
      format_(format_named(index_.format)),
      files_(std::move(files)),
      blocks_(kBlockCacheBytes, blocks_of_row(index_)) {}

Bytes StoredDataset::fetch(const Extent& extent, Scratch& scratch) const {
  if (extent.file == kInIndex) return as_bytes(index_.inline_bytes).subspan(extent.offset, extent.length);
  return files_[extent.file]->read(extent.offset, extent.length, scratch);
}

Bytes StoredDataset::row_of_block(std::size_t place, std::int64_t sample, Scratch& scratch) const {
  const Column& column = index_.columns[place];
  const auto entry = static_cast<std::uint64_t>(sample);
  const std::uint64_t number = entry / column.rows_per_block;
  const auto block = blocks_.get({place, number}, [&] {
    return format_.unpack_from(path_, index_, column, fetch(column.extents[number], scratch));
  });
  const std::uint64_t offset = entry % column.rows_per_block * column.row_bytes;
  if (offset + column.row_bytes > block->size()) {
    fail(Fault::Data, fmt::format("a block unpacks to {} bytes, too few for this row", block->size()));
  }
  const auto row = scratch.take(column.row_bytes);  // the block may leave the cache
  std::memcpy(row.data(), block->data() + offset, row.size());
  return row;
}

std::optional<Bytes> StoredDataset::bytes_of(std::size_t place, std::int64_t sample, Scratch& scratch) const {
  const Column& column = index_.columns[place];
  if (column.layout == Column::Layout::Blocks) return row_of_block(place, sample, scratch);
  const Extent extent = column.extent(sample);
  if (extent.length == kAbsent) return std::nullopt;
  return fetch(extent, scratch);
}

void StoredDataset::read(std::int64_t sample, Sample& into) const {
  into.clear(index_.schema.size());
  try {
    for (std::size_t place = 0; place < index_.columns.size(); ++place) {
      const Column& column = index_.columns[place];
      if (const auto bytes = bytes_of(place, sample, into.scratch)) {
        format_.decode(index_, column, *bytes, into);
      } else {
        for (const auto field : column.fields) into.values[field].missing = true;
      }
    }
  } catch (Error& error) {
    throw error.during("reading " + name(sample));
  }
}

void StoredDataset::prefetch(std::int64_t sample) const noexcept {
  for (const auto& column : index_.columns) {
    if (column.layout == Column::Layout::Blocks) continue;
    const Extent extent = column.extent(sample);
    if (extent.file != kInIndex && extent.length != kAbsent)
      files_[extent.file]->prefetch(extent.offset, extent.length);
  }
}

void StoredDataset::bring_in(std::int64_t sample, Scratch& scratch) const {
  scratch.clear();
  for (std::size_t place = 0; place < index_.columns.size(); ++place) (void)bytes_of(place, sample, scratch);
}

std::string StoredDataset::key(std::int64_t sample) const {
  return index_.has_keys() ? std::string(index_.key(sample)) : std::to_string(sample);
}

std::string StoredDataset::name(std::int64_t sample) const {
  std::string text = fmt::format("{}: sample {}", path_, sample);
  if (index_.has_keys()) text += fmt::format(" '{}'", index_.key(sample));
  const Column& column = index_.columns.at(0);
  if (column.layout == Column::Layout::Blocks) return text;
  const Extent extent = column.extent(sample);
  if (extent.file == kInIndex || extent.length == kAbsent) return text;
  if (index_.files.size() > 1) text += " in " + index_.files[extent.file].path;
  return text + fmt::format(" at byte {}", extent.offset);
}

std::uint64_t StoredDataset::checksum(std::int64_t sample, Scratch& scratch) const {
  try {
    std::uint64_t hash = 0;
    for (std::size_t place = 0; place < index_.columns.size(); ++place) {
      const auto bytes = bytes_of(place, sample, scratch);
      if (bytes) hash = hash64(as_text(*bytes), hash);
    }
    return hash;
  } catch (Error& error) {
    throw error.during("reading " + name(sample));
  }
}

bool StoredDataset::verify(std::int64_t sample) const {
  if (index_.checksums.empty()) return false;
  Scratch scratch;
  if (checksum(sample, scratch) != index_.checksums[static_cast<std::size_t>(sample)]) {
    fail(Fault::Data, fmt::format("{} is corrupt: its bytes are not those of the scan", name(sample)));
  }
  return true;
}

}  // namespace lockstep::data
