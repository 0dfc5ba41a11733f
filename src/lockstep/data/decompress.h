// lockstep/data/decompress.h
//
// Bytes that were compressed as a whole: files by libarchive (gzip, bzip2, xz, zstd,
// whatever it was built with), members of archives by zlib.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "lockstep/data/sample.h"

namespace lockstep::data {

/// By its name: .gz, .bz2, .xz, .zst, or .tgz, .tbz2, .txz, .tzst of a tar archive.
bool is_compressed_name(const std::string& path);
/// "part.csv.gz" -> "part.csv", "part.tgz" -> "part.tar"; another name as it is.
std::string name_decompressed(const std::string& path);

/// Fault::Data with the name if its bytes are torn.
std::string decompress_file(const std::string& path);

/// Raw deflate, as in zip; Fault::Data unless it gives exactly `into`.size() bytes.
void inflate_raw(Bytes packed, std::span<std::byte> into);
/// Its first bytes, `most` at most.
std::string inflate_raw_front(Bytes packed, std::size_t most);
std::string deflate_raw(Bytes bytes, int level);
/// With zlib's head and checksum, as HDF5 has it.
std::string inflate_zlib(Bytes packed, std::size_t bytes);

/// Raw deflate in pieces, for what is too large to be held.
class Deflater {
 public:
  /// Fault::Usage if zlib has no such level.
  explicit Deflater(int level);
  ~Deflater();
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;

  /// What follows in the stream; with the last piece its end.
  std::string add(Bytes piece, bool last);

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
};

/// Of zip and PNG; `before` is that of the bytes before these.
std::uint32_t crc32_of(Bytes bytes, std::uint32_t before = 0) noexcept;
/// Of two runs of bytes, one behind the other.
std::uint32_t crc32_joined(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes) noexcept;

}  // namespace lockstep::data
