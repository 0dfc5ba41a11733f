// lockstep/data/zip_directory.h
//
// The members of a zip archive as its directory at the end lists them, and the places
// of their bytes, and the same for writing. Stored and deflated members, zip64. Sizes
// come from the directory, so members that were streamed (with data descriptors) are
// fine. What it says is checked against the bytes that are there: no member lies outside
// the archive, all of them together fit in it, and none unpacks to more than deflate can.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/file.h"
#include "lockstep/data/sample.h"

namespace lockstep::data {

/// What it takes to unpack a member, besides its bytes.
struct ZipPacking {
  std::uint64_t header_offset = 0;  // for messages
  std::uint64_t bytes = 0;          // unpacked
  std::uint32_t crc = 0;            // of the unpacked bytes
  std::uint32_t method = 0;         // kStored or kDeflated
};
inline constexpr std::uint32_t kStored = 0, kDeflated = 8;

struct ZipMember {
  std::string name;
  std::uint64_t data_offset = 0;
  std::uint64_t packed_bytes = 0;
  ZipPacking packing;
  bool regular = true;  // a file, not a folder or link
};

class ZipReader {
 public:
  /// `archive` must outlive it.
  explicit ZipReader(Bytes archive);
  /// In order of the directory; nothing behind the last one.
  std::optional<ZipMember> next();

 private:
  void find_data(ZipMember& member) const;

  Bytes archive_;
  std::uint64_t at_ = 0;         // the next entry of the directory
  std::uint64_t left_ = 0;       // entries
  std::uint64_t directory_ = 0;  // where it begins: members lie before
  std::uint64_t end_ = 0;        // of the directory
  std::uint64_t members_bytes_ = 0;
};

bool is_zip(Bytes head) noexcept;

/// `packed` as it was. Fault::Data, before any memory is taken, if it cannot hold so many bytes, and if
/// their checksum is wrong.
Bytes unpack_member(const ZipPacking& packing, Bytes packed, Scratch& scratch);
std::string unpack_member(const ZipPacking& packing, Bytes packed);
/// The first bytes of it: as many as the head of an array can have.
std::string front_of_member(const ZipMember& member, Bytes archive);

/// Fault::Usage unless it is "" (stored) or "deflate".
void check_zip_compression(const std::string& compression);

/// An archive written member by member: begin(), write() of its packed bytes, …, finish().
class ZipFile {
 public:
  explicit ZipFile(const std::string& path) : file_(path) {}
  /// Name, packed_bytes and packing are taken of `member`; its data will lie at a multiple of `alignment`.
  void begin(ZipMember member, std::uint64_t alignment);
  void write(std::string_view packed);
  void finish();

 private:
  WholeFile file_;
  std::uint64_t at_ = 0;
  std::uint64_t count_ = 0;
  std::string directory_;
};

}  // namespace lockstep::data
