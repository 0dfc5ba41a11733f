#include "lockstep/data/index_tables.h"

#include <bit>

#include "lockstep/core/error.h"
#include "lockstep/data/file_bytes.h"
#include "lockstep/data/varint.h"

namespace lockstep::data {
namespace {

/// Small for numbers near 0 of either sign.
std::uint64_t folded(std::uint64_t difference) {
  const auto number = static_cast<std::int64_t>(difference);
  return difference << 1 ^ static_cast<std::uint64_t>(number >> 63);
}
std::uint64_t unfolded(std::uint64_t number) { return number >> 1 ^ (~(number & 1) + 1); }

/// The largest power of two that divides all offsets, such as the 512 of a tar archive.
std::uint64_t alignment_of(const std::vector<Extent>& extents) {
  constexpr std::uint64_t kMost = 4096;
  std::uint64_t bits = kMost;
  for (const auto& extent : extents) bits |= extent.offset;
  return std::uint64_t{1} << std::countr_zero(bits);
}

/// Where the next entry begins if nothing lies between. Numbers wrap: it is a guess, not a place.
std::uint64_t behind(const Extent& extent, std::uint64_t alignment) {
  const std::uint64_t end = extent.offset + (extent.length == kAbsent ? 0 : extent.length);
  return (end + alignment - 1) & ~(alignment - 1);
}

}  // namespace

void fail_torn_index() { fail(Fault::Data, "the index cannot be read"); }

void append_text(std::string& bytes, std::string_view text) {
  append_varint(bytes, text.size());
  bytes += text;
}

void append_extents(std::string& bytes, const std::vector<Extent>& extents) {
  const std::uint64_t alignment = alignment_of(extents);
  append_varint(bytes, extents.size());
  append_varint(bytes, alignment);
  Extent before;
  for (const auto& extent : extents) {
    append_varint(bytes, folded(std::uint64_t{extent.file} - before.file));
    before = extent;
  }
  before = {};
  for (const auto& extent : extents) {
    append_varint(bytes, folded(extent.length - before.length));
    before = extent;
  }
  before = {};
  std::uint64_t gap_before = 0;
  for (const auto& extent : extents) {
    const std::uint64_t gap = extent.offset - behind(before, alignment);
    append_varint(bytes, folded(gap - gap_before));
    gap_before = gap;
    before = extent;
  }
}

void append_ends(std::string& bytes, const std::vector<std::uint64_t>& ends) {
  append_varint(bytes, ends.size());
  std::uint64_t begin = 0;
  for (const auto end : ends) {
    append_varint(bytes, end - begin);
    begin = end;
  }
}

std::uint64_t TableReader::number() {
  const auto number = take_varint(rest_);
  if (!number) fail_torn_index();
  return *number;
}

std::uint64_t TableReader::difference() { return unfolded(number()); }

std::size_t TableReader::count() {
  const std::uint64_t count = number();
  if (count > rest_.size()) fail_torn_index();
  return count;
}

Bytes TableReader::take(std::uint64_t bytes) {
  if (bytes > rest_.size()) fail_torn_index();
  const Bytes part = rest_.first(bytes);
  rest_ = rest_.subspan(bytes);
  return part;
}

std::string_view TableReader::text() { return as_text(take(number())); }

std::vector<Extent> TableReader::extents() {
  std::vector<Extent> extents(count());
  const std::uint64_t alignment = number();
  if (!std::has_single_bit(alignment)) fail_torn_index();
  std::uint64_t file = 0, length = 0, gap = 0;
  for (auto& extent : extents) {
    file += difference();
    if (file > UINT32_MAX) fail_torn_index();
    extent.file = static_cast<std::uint32_t>(file);
  }
  for (auto& extent : extents) extent.length = length += difference();
  Extent before;
  for (auto& extent : extents) {
    gap += difference();
    extent.offset = behind(before, alignment) + gap;
    before = extent;
  }
  return extents;
}

std::vector<std::uint64_t> TableReader::ends(std::uint64_t size) {
  std::vector<std::uint64_t> ends(count());
  std::uint64_t begin = 0;
  for (auto& end : ends) {
    const std::uint64_t length = number();
    if (length > size - begin) fail_torn_index();
    end = begin += length;
  }
  return ends;
}

}  // namespace lockstep::data
