// lockstep/data/file_bytes.h
//
// The bytes of one file, read from many threads. Formats ask for ranges and do not
// know where they come from: a mapping, a read, a decompressed copy, or a cache that
// reads the shared file system once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/data/sample.h"

namespace lockstep::data {

class FileBytes {
 public:
  virtual ~FileBytes() = default;
  virtual const std::string& path() const noexcept = 0;
  virtual std::uint64_t size() const noexcept = 0;
  /// The bytes [offset, offset + length), valid as long as this and `scratch` (which may hold
  /// them) are. Fault::Data if the file ends before.
  virtual Bytes read(std::uint64_t offset, std::uint64_t length, Scratch& scratch) const = 0;
  /// A hint that they will be read next.
  virtual void prefetch(std::uint64_t, std::uint64_t) const noexcept {}
};

/// Whether there is anything at `path`. Fault::Usage if that may not be seen, as in a folder of somebody else.
bool is_there(const std::string& path);
/// Fault::Usage unless it is an ordinary file or a folder that this user may read. A pipe would be waited for,
/// and is gone once read.
void check_can_read(const std::string& path);

/// Mapped into memory, for a scan that walks through it. A file compressed as a whole (.gz, .bz2,
/// .xz, .zst) is decompressed into memory.
std::shared_ptr<const FileBytes> map_file(const std::string& path);
/// Read range by range, for samples: what a mapping has touched counts as memory of the process.
/// Compressed ones as by map_file.
std::shared_ptr<const FileBytes> open_file(const std::string& path);
/// For rows of arrays, which cost nothing to decode: mapped where the file lies on a disk of the host's
/// own and is small against its memory, since finding a page costs the kernel more than the row's
/// copy. Else as by open_file.
std::shared_ptr<const FileBytes> open_array_file(const std::string& path);
/// Opened at each read: for thousands of small files. `size` is what a scan saw.
std::shared_ptr<const FileBytes> plain_file(const std::string& path, std::uint64_t size);

/// All of it, for a scan.
inline Bytes whole(const FileBytes& file, Scratch& scratch) { return file.read(0, file.size(), scratch); }

inline std::string_view as_text(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
inline Bytes as_bytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

}  // namespace lockstep::data
