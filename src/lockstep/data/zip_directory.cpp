#include "lockstep/data/zip_directory.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/data/decompress.h"
#include "lockstep/data/file_bytes.h"

namespace lockstep::data {
namespace {

// The parts of an archive begin with these; numbers are little-endian, as ours.
constexpr std::string_view kLocal = "PK\x03\x04", kEntry = "PK\x01\x02", kEnd = "PK\x05\x06", kEnd64 = "PK\x06\x06",
                           kLocator64 = "PK\x06\x07";
constexpr std::uint64_t kLocalBytes = 30, kEntryBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kLocator64Bytes = 20;
constexpr std::uint16_t kZip64Extra = 1, kAlignmentExtra = 0xD935;
constexpr std::uint16_t kEncrypted = 1, kHiddenNames = 1 << 13, kUtf8 = 1 << 11;
constexpr std::uint32_t kLinkMode = 0120000, kTypeOfMode = 0170000;
/// In a 32-bit field: the number stands in the zip64 part.
constexpr std::uint32_t kElsewhere = UINT32_MAX;
/// Of deflate: 258 bytes from two bits.
constexpr std::uint64_t kMostFromAByte = 1032;
constexpr std::size_t kFrontBytes = 4096;

[[noreturn]] void torn(std::uint64_t offset, const std::string& what) {
  fail(Fault::Data, fmt::format("the zip archive is corrupt at byte {}: {}", offset, what));
}

/// Bytes of the archive that must be there and begin with `signature`.
class Record {
 public:
  Record(Bytes archive, std::uint64_t offset, std::uint64_t bytes, std::string_view signature) {
    if (offset > archive.size() || bytes > archive.size() - offset) torn(offset, "it ends before");
    text_ = as_text(archive.subspan(offset, bytes));
    if (!text_.starts_with(signature)) torn(offset, fmt::format("no record {}", words(signature)));
  }
  template <class Number>
  Number number(std::size_t at) const {
    Number number;
    std::memcpy(&number, text_.data() + at, sizeof number);
    return number;
  }

 private:
  static std::string words(std::string_view signature) {
    return fmt::format("PK {} {}", static_cast<int>(signature[2]), static_cast<int>(signature[3]));
  }
  std::string_view text_;
};

std::uint64_t find_end(Bytes archive) {
  const std::string_view text = as_text(archive);
  if (text.size() >= kEndBytes) {
    const std::size_t most = std::min<std::size_t>(text.size(), kEndBytes + UINT16_MAX);
    for (std::size_t at = text.size() - kEndBytes;; --at) {
      if (text.substr(at).starts_with(kEnd)) {
        const auto comment = Record(archive, at, kEndBytes, kEnd).number<std::uint16_t>(20);
        if (at + kEndBytes + comment == text.size()) return at;
      }
      if (at == text.size() - most) break;
    }
  }
  if (!is_zip(archive)) fail(Fault::Data, "not a zip archive: it does not begin with PK");
  fail(Fault::Data, fmt::format("the zip archive is cut short: no directory at the end of its {} bytes; fetch or write "
                                "it again",
                                archive.size()));
}

/// Numbers that did not fit in 32 bits follow each other in the zip64 part, in this order.
void read_zip64(std::string_view extra, std::uint64_t offset, const std::array<std::uint64_t*, 3>& numbers) {
  while (extra.size() >= 4) {
    std::uint16_t id = 0, bytes = 0;
    std::memcpy(&id, extra.data(), sizeof id);
    std::memcpy(&bytes, extra.data() + 2, sizeof bytes);
    extra.remove_prefix(4);
    std::string_view data = extra.substr(0, bytes);
    if (data.size() != bytes) torn(offset, "an extra field is longer than its entry");
    extra.remove_prefix(bytes);
    if (id != kZip64Extra) continue;
    for (auto* number : numbers) {
      if (*number != kElsewhere) continue;
      if (data.size() < sizeof *number) torn(offset, "the zip64 field is too short");
      std::memcpy(number, data.data(), sizeof *number);
      data.remove_prefix(sizeof *number);
    }
    return;
  }
}

void check_kind(const std::string& name, std::uint64_t offset, std::uint16_t flags, std::uint32_t method) {
  if ((flags & (kEncrypted | kHiddenNames)) != 0) {
    fail(Fault::Data,
         fmt::format("'{}', whose entry is at byte {}, is encrypted; unpack the archive first", name, offset));
  }
  if (method != kStored && method != kDeflated) {
    fail(Fault::Data, fmt::format("'{}', whose entry is at byte {}, is compressed by method {}; write the archive with "
                                  "deflate (8) or stored (0)",
                                  name, offset, method));
  }
}

void check_possible(const ZipPacking& packing, std::uint64_t packed) {
  const bool possible = packing.method == kStored ? packing.bytes == packed : packing.bytes / kMostFromAByte <= packed;
  if (packing.method != kStored && packing.method != kDeflated) {
    fail(Fault::Data, fmt::format("zip method {} is unknown", packing.method));
  }
  if (!possible) {
    fail(Fault::Data, fmt::format("the zip member at byte {} cannot have {} bytes, packed into {}",
                                  packing.header_offset, packing.bytes, packed));
  }
}

void check_crc(const ZipPacking& packing, Bytes bytes) {
  const std::uint32_t crc = crc32_of(bytes);
  if (crc != packing.crc) {
    fail(Fault::Data, fmt::format("the zip member at byte {} is corrupt: its crc32 is {:08x} instead of {:08x}",
                                  packing.header_offset, crc, packing.crc));
  }
}

void inflate_checked(const ZipPacking& packing, Bytes packed, std::span<std::byte> into) {
  try {
    inflate_raw(packed, into);
  } catch (Error& error) {
    throw error.during(fmt::format("unpacking the zip member at byte {}", packing.header_offset));
  }
  check_crc(packing, into);
}

// ---- writing -------------------------------------------------------------------------------------

template <class... Numbers>
void append(std::string& text, Numbers... numbers) {
  (text.append(reinterpret_cast<const char*>(&numbers), sizeof numbers), ...);
}

std::uint32_t in_32(std::uint64_t number) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(number, kElsewhere));
}
std::uint16_t in_16(std::uint64_t number) {
  return static_cast<std::uint16_t>(std::min<std::uint64_t>(number, UINT16_MAX));
}

/// A zip64 part of those that do not fit.
std::string zip64_extra(std::initializer_list<std::uint64_t> numbers) {
  std::string large;
  for (const auto number : numbers) {
    if (number >= kElsewhere) append(large, number);
  }
  std::string extra;
  if (!large.empty()) append(extra, kZip64Extra, static_cast<std::uint16_t>(large.size()));
  return extra + large;
}

/// What both the header before a member and its entry in the directory say.
void append_description(std::string& text, const ZipMember& member, std::uint32_t packed_bytes, std::uint32_t bytes,
                        std::size_t extra_bytes) {
  constexpr std::uint16_t kVersion = 45, kTime = 0, kDate = 1 << 5 | 1;  // zip64; the first day of 1980
  append(text, kVersion, kUtf8, static_cast<std::uint16_t>(member.packing.method), kTime, kDate, member.packing.crc,
         packed_bytes, bytes, static_cast<std::uint16_t>(member.name.size()), static_cast<std::uint16_t>(extra_bytes));
}

}  // namespace

// ---- reading -------------------------------------------------------------------------------------

ZipReader::ZipReader(Bytes archive) : archive_(archive) {
  const std::uint64_t at = find_end(archive);
  const Record end(archive, at, kEndBytes, kEnd);
  left_ = end.number<std::uint16_t>(10);
  std::uint64_t bytes = end.number<std::uint32_t>(12);
  directory_ = end.number<std::uint32_t>(16);
  const auto disk = end.number<std::uint16_t>(4);
  if (disk != 0 && disk != UINT16_MAX) fail(Fault::Data, "the zip archive is one of several parts; join them first");
  std::uint64_t last = at;
  if (at >= kLocator64Bytes && as_text(archive.subspan(at - kLocator64Bytes)).starts_with(kLocator64)) {
    last = Record(archive, at - kLocator64Bytes, kLocator64Bytes, kLocator64).number<std::uint64_t>(8);
    const Record end64(archive, last, kEnd64Bytes, kEnd64);
    left_ = end64.number<std::uint64_t>(32);
    bytes = end64.number<std::uint64_t>(40);
    directory_ = end64.number<std::uint64_t>(48);
  }
  if (directory_ > last || bytes > last - directory_) {
    torn(last, fmt::format("a directory of {} bytes at byte {} does not lie before it", bytes, directory_));
  }
  at_ = directory_;
  end_ = directory_ + bytes;
}

std::optional<ZipMember> ZipReader::next() {
  if (left_ == 0) {
    if (at_ != end_) torn(at_, fmt::format("the directory has {} bytes more than its entries", end_ - at_));
    return std::nullopt;
  }
  --left_;
  const Bytes directory = archive_.first(end_);
  const Record entry(directory, at_, kEntryBytes, kEntry);
  const std::uint64_t name_bytes = entry.number<std::uint16_t>(28), extra_bytes = entry.number<std::uint16_t>(30),
                      comment_bytes = entry.number<std::uint16_t>(32);
  const std::uint64_t bytes = kEntryBytes + name_bytes + extra_bytes + comment_bytes;
  (void)Record(directory, at_, bytes, kEntry);  // its end is there as well
  ZipMember member;
  member.name = as_text(directory.subspan(at_ + kEntryBytes, name_bytes));
  member.packed_bytes = entry.number<std::uint32_t>(20);
  member.packing = {entry.number<std::uint32_t>(42), entry.number<std::uint32_t>(24), entry.number<std::uint32_t>(16),
                    entry.number<std::uint16_t>(10)};
  read_zip64(as_text(directory.subspan(at_ + kEntryBytes + name_bytes, extra_bytes)), at_,
             {&member.packing.bytes, &member.packed_bytes, &member.packing.header_offset});
  const bool link = (entry.number<std::uint32_t>(38) >> 16 & kTypeOfMode) == kLinkMode;
  member.regular = !member.name.ends_with('/') && !link;
  check_kind(member.name, at_, entry.number<std::uint16_t>(8), member.packing.method);
  try {
    find_data(member);
  } catch (Error& error) {
    throw error.during(fmt::format("looking for '{}'", member.name));
  }
  members_bytes_ += member.packed_bytes;
  if (members_bytes_ > archive_.size()) torn(at_, "its members are larger than itself, so they overlap");
  at_ += bytes;
  return member;
}

void ZipReader::find_data(ZipMember& member) const {
  const std::uint64_t offset = member.packing.header_offset;
  const Record header(archive_, offset, kLocalBytes, kLocal);
  member.data_offset = offset + kLocalBytes + header.number<std::uint16_t>(26) + header.number<std::uint16_t>(28);
  if (member.data_offset > directory_ || member.packed_bytes > directory_ - member.data_offset) {
    torn(offset, fmt::format("{} bytes of a member do not lie before the directory at byte {}", member.packed_bytes,
                             directory_));
  }
  check_possible(member.packing, member.packed_bytes);
}

bool is_zip(Bytes head) noexcept { return as_text(head).starts_with(kLocal) || as_text(head).starts_with(kEnd); }

Bytes unpack_member(const ZipPacking& packing, Bytes packed, Scratch& scratch) {
  check_possible(packing, packed.size());
  if (packing.method == kStored) {
    check_crc(packing, packed);
    return packed;
  }
  const auto bytes = scratch.take(packing.bytes);
  inflate_checked(packing, packed, bytes);
  return bytes;
}

std::string unpack_member(const ZipPacking& packing, Bytes packed) {
  check_possible(packing, packed.size());
  std::string bytes(packing.bytes, '\0');
  if (packing.method == kStored) {
    bytes = as_text(packed);
    check_crc(packing, packed);
  } else {
    inflate_checked(packing, packed, std::as_writable_bytes(std::span(bytes)));
  }
  return bytes;
}

std::string front_of_member(const ZipMember& member, Bytes archive) {
  const Bytes packed = archive.subspan(member.data_offset, member.packed_bytes);
  const std::size_t most = std::min<std::uint64_t>(member.packing.bytes, kFrontBytes);
  if (member.packing.method == kDeflated) return inflate_raw_front(packed, most);
  return std::string(as_text(packed).substr(0, most));
}

void check_zip_compression(const std::string& compression) {
  if (compression.empty() || compression == "deflate") return;
  fail(Fault::Usage, fmt::format("zip archives have no compression '{}'; there is deflate, or none", compression));
}

// ---- ZipFile -------------------------------------------------------------------------------------

void ZipFile::begin(ZipMember member, std::uint64_t alignment) {
  if (member.name.size() > UINT16_MAX) fail(Fault::Usage, fmt::format("'{:.40}…' is too long a name", member.name));
  member.packing.header_offset = at_;
  // A reader that finds one of the two sizes here expects both.
  const bool large = std::max(member.packed_bytes, member.packing.bytes) >= kElsewhere;
  std::string extra;
  if (large) append(extra, kZip64Extra, std::uint16_t{16}, member.packing.bytes, member.packed_bytes);
  std::uint64_t padding = (alignment - (at_ + kLocalBytes + member.name.size() + extra.size()) % alignment) % alignment;
  if (padding > 0) {
    while (padding < 4) padding += alignment;
    append(extra, kAlignmentExtra, static_cast<std::uint16_t>(padding - 4));
    extra.append(padding - 4, '\0');
  }
  std::string header(kLocal);
  append_description(header, member, large ? kElsewhere : in_32(member.packed_bytes),
                     large ? kElsewhere : in_32(member.packing.bytes), extra.size());
  write(header + member.name + extra);

  const std::string entry_extra =
      zip64_extra({member.packing.bytes, member.packed_bytes, member.packing.header_offset});
  directory_ += kEntry;
  append(directory_, std::uint16_t{3 << 8 | 45});  // made on Unix
  append_description(directory_, member, in_32(member.packed_bytes), in_32(member.packing.bytes), entry_extra.size());
  append(directory_, std::uint16_t{0}, std::uint16_t{0}, std::uint16_t{0}, std::uint32_t{0100644U << 16},
         in_32(member.packing.header_offset));
  directory_ += member.name;
  directory_ += entry_extra;
  ++count_;
}

void ZipFile::write(std::string_view packed) {
  file_.write(packed);
  at_ += packed.size();
}

void ZipFile::finish() {
  const std::uint64_t offset = at_, bytes = directory_.size();
  write(directory_);
  std::string end;
  if (count_ >= UINT16_MAX || offset >= kElsewhere || bytes >= kElsewhere) {
    end += kEnd64;
    append(end, kEnd64Bytes - 12, std::uint16_t{3 << 8 | 45}, std::uint16_t{45}, std::uint32_t{0}, std::uint32_t{0},
           count_, count_, bytes, offset);
    end += kLocator64;
    append(end, std::uint32_t{0}, at_, std::uint32_t{1});
  }
  end += kEnd;
  append(end, std::uint16_t{0}, std::uint16_t{0}, in_16(count_), in_16(count_), in_32(bytes), in_32(offset),
         std::uint16_t{0});
  write(end);
  file_.commit();
}

}  // namespace lockstep::data
