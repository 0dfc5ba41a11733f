// lockstep/data/tar_members.h
//
// The members of a tar archive with the places of their bytes, which libraries that
// stream do not tell. Reads ustar, GNU long names, pax paths and sizes and sizes in
// base 256; every header's checksum is looked at. An archive without its end is an
// Error: a broken download would otherwise lose samples in silence.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/data/sample.h"

namespace lockstep::data {

struct TarMember {
  std::string name;
  std::uint64_t header_offset = 0;
  std::uint64_t data_offset = 0;
  std::uint64_t bytes = 0;
  bool regular = false;  // a file, not a folder, link or device
};

class TarReader {
 public:
  /// `archive` must outlive it.
  explicit TarReader(Bytes archive) : archive_(archive) {}
  /// In order; nothing behind the last one.
  std::optional<TarMember> next();

 private:
  struct Header;
  Header header_at(std::uint64_t offset) const;
  /// What `member` holds, if the archive is that long.
  std::string_view data_of(const TarMember& member) const;

  Bytes archive_;
  std::uint64_t at_ = 0;
};

bool is_tar(Bytes head) noexcept;

// ---- writing: header, data, padding, … end ----

/// The same bytes for the same name and size, wherever and whenever.
std::string tar_header(const std::string& name, std::uint64_t bytes);
/// Zeros up to the next header.
std::string tar_padding(std::uint64_t bytes);
std::string tar_end();

}  // namespace lockstep::data
