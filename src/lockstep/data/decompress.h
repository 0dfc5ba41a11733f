// lockstep/data/decompress.h
//
// Bytes that were compressed as a whole: files by libarchive (gzip, bzip2, xz, zstd,
// whatever it was built with), members of archives by zlib.
#pragma once

#include <cstddef>
#include <string>

#include "lockstep/data/sample.h"

namespace lockstep::data {

/// By its name: .gz, .bz2, .xz or .zst.
bool is_compressed_name(const std::string& path);
/// "part.csv.gz" -> "part.csv"; another name as it is.
std::string name_decompressed(const std::string& path);

/// Fault::Data with the name if its bytes are torn.
std::string decompress_file(const std::string& path);

/// Raw deflate, as in zip; Fault::Data unless it gives exactly `into`.size() bytes.
void inflate_raw(Bytes packed, std::span<std::byte> into);
std::string deflate_raw(Bytes bytes, int level);
/// With zlib's head and checksum, as HDF5 has it.
std::string inflate_zlib(Bytes packed, std::size_t bytes);

/// Of zip and PNG.
std::uint32_t crc32_of(Bytes bytes) noexcept;

}  // namespace lockstep::data
