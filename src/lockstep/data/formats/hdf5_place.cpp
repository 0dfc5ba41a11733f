#if LOCKSTEP_HAS_HDF5
#include "lockstep/data/formats/hdf5_place.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lockstep/core/error.h"
#include "lockstep/data/file_bytes.h"
#include "lockstep/data/formats/hdf5_chunk.h"

namespace lockstep::data::hdf5 {
namespace {

using nlohmann::json;

/// Of the blocks that the library reads: worth its lock, and many fit into the cache.
constexpr std::uint64_t kReadBytes = std::uint64_t{1} << 20;
/// HDF5 walks over all chunks before the one that is asked for: more are looked up when they are read.
constexpr hsize_t kMostListedChunks = 16384;

/// What the extent of a block that the library reads points at, in Index::inline_bytes.
struct BlockRows {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

std::uint64_t blocks_for(std::uint64_t rows, std::uint64_t per_block) {
  return rows / per_block + (rows % per_block != 0);
}

// ---- blocks that the library reads ----------------------------------------------------------------

/// Blocks of `per_block` rows, described in the index itself.
Column described_blocks(const Array& array, std::uint64_t per_block, json how, Index& index) {
  Column column;
  column.layout = Column::Layout::Blocks;
  column.rows_per_block = per_block;
  column.row_bytes = array.row_bytes();
  how["path"] = array.path;
  column.how = how.dump();
  for (std::uint64_t first = 0; first < array.rows(); first += per_block) {
    const BlockRows rows = {first, std::min<std::uint64_t>(per_block, array.rows() - first)};
    column.extents.push_back({kInIndex, index.inline_bytes.size(), sizeof rows});
    index.inline_bytes.append(reinterpret_cast<const char*>(&rows), sizeof rows);
  }
  return column;
}

/// What the library reads of such values is memory of its own.
void refuse_variable(const Array& array) {
  if (!array.variable) return;
  fail(Fault::Data, fmt::format("'{}' has values of different length, packed by a filter other than shuffle, deflate "
                                "and fletcher32; write it anew with h5repack -f NONE",
                                array.path));
}

/// `chunk_rows` at a time or a multiple of them, so that none is unpacked twice.
Column through_library(const Array& array, std::uint64_t chunk_rows, Index& index) {
  refuse_variable(array);
  const std::uint64_t most = std::max<std::uint64_t>(1, kMostRowBytes / array.row_bytes());
  const std::uint64_t wanted = std::max<std::uint64_t>(1, kReadBytes / array.row_bytes());
  const std::uint64_t chunk = std::clamp<std::uint64_t>(chunk_rows, 1, most);
  return described_blocks(array, std::min(most, std::max<std::uint64_t>(1, wanted / chunk) * chunk), json::object(),
                          index);
}

// ---- chunks ---------------------------------------------------------------------------------------

struct Chunking {
  std::vector<std::uint64_t> dims;
  bool whole_rows = false;
  std::optional<ChunkPacking> packing;  // none: by filters that are not ours
};

/// Whether the filters are some of shuffle, deflate and fletcher32, in this order.
bool note_filters(hid_t properties, ChunkPacking& packing) {
  const int count = checked(H5Pget_nfilters(properties), "filters cannot be read");
  int last = 0;
  for (int i = 0; i < count; ++i) {
    unsigned flags = 0, config = 0;
    std::array<unsigned, 8> numbers{};
    std::size_t known = numbers.size();
    const H5Z_filter_t filter =
        H5Pget_filter2(properties, static_cast<unsigned>(i), &flags, &known, numbers.data(), 0, nullptr, &config);
    const int rank = filter == H5Z_FILTER_SHUFFLE      ? 1
                     : filter == H5Z_FILTER_DEFLATE    ? 2
                     : filter == H5Z_FILTER_FLETCHER32 ? 3
                                                       : 0;
    if (rank <= last) return false;
    last = rank;
    if (rank == 1) packing.shuffled = known > 0 ? numbers[0] : 0;
    if (rank == 2) packing.deflated = true;
    if (rank == 3) packing.summed = true;
  }
  return true;
}

std::string fill_of(const Array& array, hid_t properties) {
  std::string fill(array.element_bytes, '\0');
  if (array.variable) return fill;
  checked(H5Pget_fill_value(properties, array.type.get(), fill.data()), "the fill value cannot be read");
  return fill;
}

/// HDF5 may leave the chunks at the edge as they are.
bool packs_edges(hid_t properties) {
  unsigned options = 0;
  checked(H5Pget_chunk_opts(properties, &options), "chunks cannot be read");
  return (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) == 0;
}

Chunking chunking_of(const Array& array, hid_t properties) {
  std::vector<hsize_t> dims(array.dims.size());
  const int rank = static_cast<int>(array.dims.size());
  const int stored_rank = checked(H5Pget_chunk(properties, rank, dims.data()), "chunks cannot be read");
  Chunking chunking = {
      {dims.begin(), dims.end()}, std::equal(array.dims.begin() + 1, array.dims.end(), dims.begin() + 1), {}};
  ChunkPacking packing = {array.element_bytes, 0, false, false, {}};
  bool possible = stored_rank == rank;
  for (const auto size : dims)
    possible = possible && size > 0 && !__builtin_mul_overflow(packing.bytes, size, &packing.bytes);
  if (!possible || packing.bytes > kMostRowBytes) {
    fail(Fault::Data, fmt::format("'{}' has chunks of [{}]; at most 1 GiB is read", array.path, fmt::join(dims, ", ")));
  }
  if (packs_edges(properties) && note_filters(properties, packing)) {
    packing.fill = fill_of(array, properties);
    chunking.packing = packing;
  }
  return chunking;
}

/// How many of them there are in a row of chunks.
std::uint64_t chunks_across(const Array& array, const std::vector<std::uint64_t>& chunk) {
  std::uint64_t count = 1;
  for (std::size_t dim = 1; dim < chunk.size(); ++dim) {
    if (__builtin_mul_overflow(count, blocks_for(array.dims[dim], chunk[dim]), &count)) return UINT64_MAX;
  }
  return count;
}

/// The library takes a chunk that filters were left out of for a whole one, however short it is.
void refuse_left_out(const Array& array, hsize_t row) {
  fail(Fault::Data, fmt::format("the chunk at row {} of '{}' is not packed like the rest: it is corrupt, or is to be "
                                "written anew with h5repack",
                                row, array.path));
}

/// Calls with the offset, address and bytes of every chunk.
template <class Each>
void each_chunk(const Array& array, hsize_t count, const Each& each) {
  const SpaceId space(checked(H5Dget_space(array.id.get()), "chunks cannot be listed"));
  std::vector<hsize_t> offset(array.dims.size());
  for (hsize_t i = 0; i < count; ++i) {
    unsigned left_out = 0;
    haddr_t address = HADDR_UNDEF;
    hsize_t bytes = 0;
    checked(H5Dget_chunk_info(array.id.get(), space.get(), i, offset.data(), &left_out, &address, &bytes),
            fmt::format("chunk {} of '{}' is not to be found", i, array.path));
    if (left_out != 0) refuse_left_out(array, offset[0]);
    each(offset, address, bytes);
  }
}

std::vector<Extent> list_chunks(const Array& array, hsize_t chunk_rows, hsize_t count) {
  const auto blocks = blocks_for(array.rows(), chunk_rows);
  std::vector<Extent> extents(blocks, {kInIndex, 0, 0});
  each_chunk(array, count, [&](const std::vector<hsize_t>& offset, haddr_t address, hsize_t bytes) {
    const hsize_t block = offset[0] / chunk_rows;
    if (offset[0] % chunk_rows != 0 || block >= blocks || address == HADDR_UNDEF) {
      fail(Fault::Data, fmt::format("a chunk of '{}' lies at row {}, where none can be", array.path, offset[0]));
    }
    extents[block] = {0, address, bytes};
  });
  return extents;
}

void check_within_file(const Array& array, const Column& column, std::uint64_t file_bytes) {
  for (std::size_t block = 0; block < column.extents.size(); ++block) {
    const Extent& extent = column.extents[block];
    if (extent.file == kInIndex) continue;
    if (extent.offset > file_bytes || extent.length > file_bytes - extent.offset) {
      fail(Fault::Data,
           fmt::format("'{}' is cut short: rows {} on lie in {} bytes from byte {} on, but the file has {}", array.path,
                       block * column.rows_per_block, extent.length, extent.offset, file_bytes));
    }
  }
}

/// Then a row is read alone: to shuffle, a chunk would be read for every row of it.
bool lie_as_they_are(const Array& array, const ChunkPacking& packing, const std::vector<Extent>& chunks) {
  const bool packed = packing.shuffled != 0 || packing.deflated || packing.summed;
  return !packed && !array.variable && std::all_of(chunks.begin(), chunks.end(), [&](const Extent& chunk) {
    return chunk.file != kInIndex && chunk.length == packing.bytes;  // it was written
  });
}

Column chunked(const Array& array, hid_t file, hid_t properties, Index& index) {
  const Chunking chunking = chunking_of(array, properties);
  const std::uint64_t rows = chunking.dims[0];
  const std::uint64_t file_bytes = index.files[0].bytes;
  if (chunks_across(array, chunking.dims) > file_bytes / blocks_for(array.rows(), rows)) {
    fail(Fault::Data, fmt::format("'{}' cannot have {} rows in chunks of [{}]: the file has {} bytes", array.path,
                                  array.rows(), fmt::join(chunking.dims, ", "), file_bytes));
  }
  if (!chunking.packing) return through_library(array, rows, index);
  json how = to_json(*chunking.packing);
  if (!chunking.whole_rows) {
    if (rows > kMostRowBytes / array.row_bytes()) {
      fail(Fault::Data,
           fmt::format("{} rows of '{}', as many as a chunk has, are too large; write it anew with smaller "
                       "chunks (h5repack -l CHUNK=…)",
                       rows, array.path));
    }
    how["tile"] = chunking.dims;
    return described_blocks(array, rows, std::move(how), index);
  }
  const SpaceId space(checked(H5Dget_space(array.id.get()), "chunks cannot be counted"));
  hsize_t count = 0;
  checked(H5Dget_num_chunks(array.id.get(), space.get(), &count), fmt::format("chunks of '{}'", array.path));
  // HDF5 of some versions counts a chunk's address from the end of the user block.
  if (count > kMostListedChunks || user_block_bytes(file) > 0) {
    return described_blocks(array, rows, std::move(how), index);
  }
  Column column;
  column.layout = Column::Layout::Blocks;
  column.rows_per_block = rows;
  column.row_bytes = array.row_bytes();
  column.how = to_json(*chunking.packing).dump();
  column.extents = list_chunks(array, rows, count);
  check_within_file(array, column, file_bytes);
  if (lie_as_they_are(array, *chunking.packing, column.extents)) column.layout = Column::Layout::Chunks;
  return column;
}

Column contiguous(const Array& array, const Index& index) {
  const haddr_t offset = H5Dget_offset(array.id.get());
  if (offset == HADDR_UNDEF) fail(Fault::Data, fmt::format("'{}' was never written", array.path));
  const std::uint64_t file_bytes = index.files[0].bytes;
  if (offset > file_bytes || array.bytes() > file_bytes - offset) {
    fail(Fault::Data, fmt::format("'{}' is cut short: {} bytes from byte {} on are wanted, but the file has {}",
                                  array.path, array.bytes(), offset, file_bytes));
  }
  Column column;
  column.layout = Column::Layout::Uniform;
  column.extents = {{0, offset, array.row_bytes()}};
  return column;
}

// ---- reading by the library -----------------------------------------------------------------------

std::string read_block(const Array& array, const BlockRows& rows) {
  std::string bytes(rows.count * array.row_bytes(), '\0');
  read_rows(array, rows.first, rows.count, bytes.data());
  return bytes;
}

/// As it is stored.
std::string read_chunk(const Array& array, const std::vector<std::uint64_t>& origin) {
  const std::vector<hsize_t> offset(origin.begin(), origin.end());
  const auto what = fmt::format("the chunk at [{}] of '{}' cannot be read", fmt::join(origin, ", "), array.path);
  hsize_t stored = 0;
  checked(H5Dget_chunk_storage_size(array.id.get(), offset.data(), &stored), what);
  if (stored > kMostRowBytes) fail(Fault::Data, fmt::format("{}: it claims {} bytes", what, stored));
  std::string bytes(stored, '\0');
  std::uint32_t left_out = 0;
  if (stored > 0) checked(H5Dread_chunk(array.id.get(), H5P_DEFAULT, offset.data(), &left_out, bytes.data()), what);
  if (left_out != 0) refuse_left_out(array, offset[0]);
  return bytes;
}

/// The chunks that have the rows of a block, and where they begin in it.
struct Stored {
  std::vector<std::pair<std::vector<std::uint64_t>, std::string>> chunks;
  std::vector<std::uint64_t> dims;  // of the block
  std::uint64_t element_bytes = 1;
};

Stored read_chunks(const Array& array, const BlockRows& rows, const std::vector<std::uint64_t>& tile) {
  Stored stored = {{}, {array.dims.begin(), array.dims.end()}, array.element_bytes};
  stored.dims[0] = rows.count;
  std::vector<std::uint64_t> origin(tile.size(), 0);
  origin[0] = rows.first;
  for (std::size_t dim = 1; dim > 0;) {
    stored.chunks.emplace_back(origin, read_chunk(array, origin));
    stored.chunks.back().first[0] = 0;
    // On to the next one, the last dim first.
    for (dim = tile.size() - 1; dim > 0; --dim) {
      origin[dim] += tile[dim];
      if (origin[dim] < array.dims[dim]) break;
      origin[dim] = 0;
    }
  }
  return stored;
}

std::string join_chunks(const Stored& stored, const ChunkPacking& packing, const std::vector<std::uint64_t>& tile) {
  std::uint64_t bytes = stored.element_bytes;
  for (const auto size : stored.dims) bytes *= size;
  std::string block(bytes, '\0');
  for (const auto& [origin, chunk] : stored.chunks) {
    place_chunk(unpack_chunk(packing, as_bytes(chunk)), tile, origin, stored.dims, stored.element_bytes, block);
  }
  return block;
}

/// A chunk that no row of chunks has a second one of.
std::vector<std::uint64_t> whole_rows(const Array& array) { return {array.dims.begin(), array.dims.end()}; }

}  // namespace

Column column_of(const Array& array, hid_t file, Index& index) {
  const PropertiesId properties(checked(H5Dget_create_plist(array.id.get()), "its layout cannot be read"));
  const H5D_layout_t layout = H5Pget_layout(properties.get());
  if (layout == H5D_VIRTUAL || H5Pget_external_count(properties.get()) > 0) {
    fail(Fault::Data, fmt::format("'{}' lies in other files; h5repack copies it into one", array.path));
  }
  check_plausible(array, index.files[0].bytes);
  if (layout == H5D_CHUNKED) return chunked(array, file, properties.get(), index);
  if (layout == H5D_CONTIGUOUS) return contiguous(array, index);
  // The library crashes when it reads a torn one.
  fail(Fault::Data, fmt::format("'{}' lies in the head of the file; write it anew with h5repack -l CONTI", array.path));
}

std::string unpack_block(const std::string& path, const Column& column, Bytes bytes) {
  const json how = json::parse(column.how, nullptr, false);
  if (!how.is_object()) fail(Fault::Data, "the index does not say how a block is packed");
  const auto name = how.find("path");
  if (name == how.end()) return unpack_chunk(packing_from_json(how), bytes);

  BlockRows rows;
  if (!name->is_string() || bytes.size() != sizeof rows) fail(Fault::Data, "the index does not say where a block lies");
  std::memcpy(&rows, bytes.data(), sizeof rows);
  const bool tiled = how.contains("tile");
  std::vector<std::uint64_t> tile;
  Stored stored;
  {
    const Session session;
    const FileId file = open_to_read(path);
    const Array array = open_array(file.get(), name->get<std::string>());
    if (array.dims.empty() || array.row_bytes() != column.row_bytes || rows.count > column.rows_per_block) {
      fail(Fault::Data, fmt::format("'{}' is not what the index says", array.path));
    }
    if (!how.contains("bytes")) return read_block(array, rows);
    tile = tiled ? how["tile"].get<std::vector<std::uint64_t>>() : whole_rows(array);
    stored = read_chunks(array, rows, tile);
  }
  const ChunkPacking packing = packing_from_json(how);
  return tiled ? join_chunks(stored, packing, tile) : unpack_chunk(packing, as_bytes(stored.chunks.at(0).second));
}

}  // namespace lockstep::data::hdf5
#endif
