#include "lockstep/data/tar_members.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/data/file_bytes.h"

namespace lockstep::data {
namespace {

constexpr std::uint64_t kBlock = 512;
constexpr std::uint64_t kMostBytes = INT64_MAX;

/// A field of the header: where it lies and how long it is.
struct Part {
  std::size_t offset, length;
};
constexpr Part kName{0, 100}, kMode{100, 8}, kUser{108, 8}, kGroup{116, 8}, kSize{124, 12}, kTime{136, 12},
    kChecksum{148, 8}, kType{156, 1}, kMagic{257, 6}, kVersion{263, 2}, kPrefix{345, 155};

std::string_view part_of(std::string_view block, const Part& part) { return block.substr(part.offset, part.length); }

std::string_view up_to_zero(std::string_view text) { return text.substr(0, text.find('\0')); }

std::uint64_t padded(std::uint64_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; }

[[noreturn]] void torn(std::uint64_t offset, const std::string& what) {
  fail(Fault::Data, fmt::format("the tar header at byte {} {}", offset, what));
}

// ---- numbers -------------------------------------------------------------------------------------

std::optional<std::uint64_t> octal(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  text = text.substr(0, text.find_first_of(std::string_view(" \0", 2)));
  if (text.empty()) return 0;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 8);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// The other form of a size, for 8 GiB and more: bit 7 of the first byte, then a big-endian number.
std::optional<std::uint64_t> base256(std::string_view text) {
  if (text[0] != '\x80') return std::nullopt;
  std::uint64_t number = 0;
  for (const char digit : text.substr(1)) {
    if (number > kMostBytes >> 8) return std::nullopt;
    number = number << 8 | static_cast<unsigned char>(digit);
  }
  return number;
}

std::uint64_t size_in(std::string_view block, std::uint64_t offset) {
  const std::string_view text = part_of(block, kSize);
  const auto size = (text[0] & '\x80') != 0 ? base256(text) : octal(text);
  if (!size || *size > kMostBytes) torn(offset, "has no possible size");
  return *size;
}

/// Over all bytes, those of the checksum itself taken as spaces. Some old programs summed signed bytes.
template <class Byte>
std::int64_t sum_of(std::string_view block) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < block.size(); ++i) {
    const bool own = i >= kChecksum.offset && i < kChecksum.offset + kChecksum.length;
    sum += own ? ' ' : static_cast<Byte>(block[i]);
  }
  return sum;
}

void check_sum(std::string_view block, std::uint64_t offset) {
  const auto stored = octal(part_of(block, kChecksum));
  const auto wanted = sum_of<unsigned char>(block);
  if (stored && (static_cast<std::int64_t>(*stored) == wanted ||
                 static_cast<std::int64_t>(*stored) == sum_of<signed char>(block))) {
    return;
  }
  if (offset == 0) fail(Fault::Data, "not a tar archive: its first 512 bytes are no tar header");
  torn(offset,
       fmt::format("is corrupt: its checksum is '{}' instead of {:o}", up_to_zero(part_of(block, kChecksum)), wanted));
}

// ---- names ---------------------------------------------------------------------------------------

std::string name_in(std::string_view block) {
  const std::string name(up_to_zero(part_of(block, kName)));
  // GNU keeps times where ustar has the front part of a long name.
  const bool ustar = part_of(block, kMagic) == std::string_view("ustar\0", 6);
  const std::string_view prefix = ustar ? up_to_zero(part_of(block, kPrefix)) : std::string_view();
  return prefix.empty() ? name : fmt::format("{}/{}", prefix, name);
}

/// What an extension header says of the member behind it.
struct Said {
  std::optional<std::string> name;
  std::optional<std::uint64_t> bytes;
};

/// Records "LENGTH KEY=VALUE\n", one behind the other.
void read_pax(std::string_view records, std::uint64_t offset, Said& said) {
  while (!records.empty()) {
    std::uint64_t length = 0;
    const auto [end, error] = std::from_chars(records.data(), records.data() + records.size(), length);
    const auto digits = static_cast<std::size_t>(end - records.data());
    if (error != std::errc() || length > records.size() || length < digits + 3 || *end != ' ' ||
        records[length - 1] != '\n') {
      torn(offset, "has pax records that cannot be read");
    }
    const std::string_view record = records.substr(digits + 1, length - digits - 2);
    records.remove_prefix(length);
    const auto sign = record.find('=');
    if (sign == std::string_view::npos) torn(offset, "has a pax record without '='");
    const std::string_view key = record.substr(0, sign), value = record.substr(sign + 1);
    if (key == "path") said.name = up_to_zero(value);
    if (key == "size") {
      std::uint64_t bytes = 0;
      const auto [last, wrong] = std::from_chars(value.data(), value.data() + value.size(), bytes);
      if (wrong != std::errc() || last != value.data() + value.size() || bytes > kMostBytes) {
        torn(offset, fmt::format("has the pax size '{}'", value.substr(0, 40)));
      }
      said.bytes = bytes;
    }
    if (key.starts_with("GNU.sparse")) torn(offset, "is of a sparse file; make the archive without --sparse");
  }
}

// ---- writing -------------------------------------------------------------------------------------

void put(std::string& block, const Part& part, std::string_view text) {
  block.replace(part.offset, std::min(text.size(), part.length), text.substr(0, part.length));
}

/// The largest number that eleven octal digits hold.
constexpr std::uint64_t kMostOctal = (std::uint64_t{1} << 33) - 1;

std::string block_of(std::string_view name, std::uint64_t bytes, char type) {
  std::string block(kBlock, '\0');
  put(block, kName, name);
  put(block, kMode, "0000644");
  put(block, kUser, "0000000");
  put(block, kGroup, "0000000");
  put(block, kSize, fmt::format("{:011o}", std::min(bytes, kMostOctal)));
  put(block, kTime, "00000000000");
  put(block, kType, std::string_view(&type, 1));
  put(block, kMagic, "ustar");
  put(block, kVersion, "00");
  put(block, kChecksum, "        ");
  put(block, kChecksum, fmt::format("{:06o}", sum_of<unsigned char>(block)));
  block[kChecksum.offset + 6] = '\0';
  return block;
}

/// Its length counts its own digits.
std::string pax_record(std::string_view key, std::string_view value) {
  const std::size_t rest = key.size() + value.size() + 3;
  std::size_t length = rest + 1;
  while (rest + std::to_string(length).size() != length) ++length;
  return fmt::format("{} {}={}\n", length, key, value);
}

}  // namespace

struct TarReader::Header {
  TarMember member;
  char type = '0';
  bool end = false;

  // As Python's tarfile: links, devices and folders have none, whatever their size says.
  bool has_data() const noexcept { return type < '1' || type > '6'; }
};

TarReader::Header TarReader::header_at(std::uint64_t offset) const {
  if (offset > archive_.size() || archive_.size() - offset < kBlock) {
    fail(Fault::Data, fmt::format("the tar archive is cut short: it has {} bytes and no end mark where the next header "
                                  "is due, at byte {}; fetch or write it again",
                                  archive_.size(), offset));
  }
  const std::string_view block = as_text(archive_.subspan(offset, kBlock));
  Header header;
  header.end = std::all_of(block.begin(), block.end(), [](char byte) { return byte == '\0'; });
  if (header.end) return header;
  check_sum(block, offset);
  header.type = part_of(block, kType)[0];
  header.member = {name_in(block), offset, offset + kBlock, size_in(block, offset), false};
  header.member.regular =
      (header.type == '0' || header.type == '\0' || header.type == '7') && !header.member.name.ends_with('/');
  return header;
}

std::string_view TarReader::data_of(const TarMember& member) const {
  if (member.bytes > archive_.size() - member.data_offset) {
    fail(Fault::Data,
         fmt::format("the tar archive is cut short: '{}' at byte {} has {} bytes, but only {} are left", member.name,
                     member.header_offset, member.bytes, archive_.size() - member.data_offset));
  }
  return as_text(archive_.subspan(member.data_offset, member.bytes));
}

std::optional<TarMember> TarReader::next() {
  Said said;
  while (true) {
    Header header = header_at(at_);
    if (header.end) return std::nullopt;
    TarMember& member = header.member;
    const bool extension = header.type == 'L' || header.type == 'K' || header.type == 'x' || header.type == 'g';
    if (!extension) {
      if (said.name) member.name = *said.name;
      if (said.bytes) member.bytes = *said.bytes;
      if (header.type == 'S') torn(at_, "is of a sparse file; make the archive without --sparse");
    }
    if (!header.has_data()) member.bytes = 0;
    const std::string_view data = data_of(member);
    if (header.type == 'L') said.name = up_to_zero(data);
    if (header.type == 'x') read_pax(data, at_, said);
    at_ = member.data_offset + padded(member.bytes);
    if (!extension) return member;
  }
}

bool is_tar(Bytes head) noexcept {
  return head.size() >= kBlock && part_of(as_text(head), kMagic).starts_with("ustar");
}

std::string tar_header(const std::string& name, std::uint64_t bytes) {
  std::string records;
  if (name.size() > kName.length) records += pax_record("path", name);
  if (bytes > kMostOctal) records += pax_record("size", std::to_string(bytes));
  std::string header;
  if (!records.empty()) header = block_of("PaxHeader", records.size(), 'x') + records + tar_padding(records.size());
  return header + block_of(name, bytes, '0');
}

std::string tar_padding(std::uint64_t bytes) { return std::string(padded(bytes) - bytes, '\0'); }

std::string tar_end() { return std::string(2 * kBlock, '\0'); }

}  // namespace lockstep::data
