#include "lockstep/data/formats/hdf5_chunk.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lockstep/core/error.h"
#include "lockstep/data/decompress.h"
#include "lockstep/data/file_bytes.h"

namespace lockstep::data::hdf5 {
namespace {

constexpr std::size_t kSumBytes = sizeof(std::uint32_t);
/// The best that deflate can do; less stored bytes than that are torn.
constexpr std::uint64_t kMostInflation = 1032;

/// The bytes before the sum at their end, which must be theirs.
Bytes without_sum(Bytes stored) {
  if (stored.size() < kSumBytes) fail(Fault::Data, fmt::format("a chunk of {} bytes has no checksum", stored.size()));
  const Bytes summed = stored.first(stored.size() - kSumBytes);
  std::uint32_t wanted = 0;
  std::memcpy(&wanted, stored.data() + summed.size(), sizeof wanted);
  if (fletcher32(summed) != wanted) {
    fail(Fault::Data,
         fmt::format("a chunk is corrupt: its checksum is {:08x}, but {:08x} was stored", fletcher32(summed), wanted));
  }
  return summed;
}

/// Shuffled bytes are the first of every element, then the second of every one, …
std::string unshuffled(const std::string& bytes, std::size_t element) {
  std::string plain(bytes.size(), '\0');
  const std::size_t count = bytes.size() / element;
  for (std::size_t byte = 0; byte < element; ++byte) {
    const char* from = bytes.data() + byte * count;
    char* into = plain.data() + byte;
    for (std::size_t i = 0; i < count; ++i) into[i * element] = from[i];
  }
  const std::size_t whole = count * element;
  std::copy(bytes.begin() + static_cast<std::ptrdiff_t>(whole), bytes.end(),
            plain.begin() + static_cast<std::ptrdiff_t>(whole));
  return plain;
}

std::string filled(const ChunkPacking& packing) {
  std::string bytes(packing.bytes, '\0');
  if (packing.fill.empty()) return bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = packing.fill[i % packing.fill.size()];
  return bytes;
}

}  // namespace

nlohmann::json to_json(const ChunkPacking& packing) {
  return {{"bytes", packing.bytes},
          {"shuffled", packing.shuffled},
          {"deflated", packing.deflated},
          {"summed", packing.summed},
          {"fill", std::vector<std::uint8_t>(packing.fill.begin(), packing.fill.end())}};
}

ChunkPacking packing_from_json(const nlohmann::json& json) {
  try {
    ChunkPacking packing = {json.at("bytes"), json.at("shuffled"), json.at("deflated"), json.at("summed"), {}};
    const auto fill = json.at("fill").get<std::vector<std::uint8_t>>();
    packing.fill.assign(fill.begin(), fill.end());
    return packing;
  } catch (const nlohmann::json::exception&) {
    fail(Fault::Data, "the index does not say how a chunk is packed");
  }
}

std::string unpack_chunk(const ChunkPacking& packing, Bytes stored) {
  if (stored.empty()) return filled(packing);
  if (packing.summed) stored = without_sum(stored);
  if (packing.deflated && packing.bytes / kMostInflation > stored.size()) {
    fail(Fault::Data, fmt::format("{} compressed bytes cannot hold a chunk of {}", stored.size(), packing.bytes));
  }
  if (!packing.deflated && stored.size() != packing.bytes) {
    fail(Fault::Data, fmt::format("a chunk has {} bytes instead of {}", stored.size(), packing.bytes));
  }
  std::string bytes = packing.deflated ? inflate_zlib(stored, packing.bytes) : std::string(as_text(stored));
  return packing.shuffled > 1 ? unshuffled(bytes, packing.shuffled) : bytes;
}

void place_chunk(std::string_view bytes, const std::vector<std::uint64_t>& chunk,
                 const std::vector<std::uint64_t>& origin, const std::vector<std::uint64_t>& dims,
                 std::uint64_t element_bytes, std::string& into) {
  const std::size_t last = dims.size() - 1;
  const std::uint64_t line = std::min(chunk[last], dims[last] - origin[last]) * element_bytes;
  std::uint64_t lines = 1;
  for (std::size_t dim = 0; dim < last; ++dim) lines *= chunk[dim];
  for (std::uint64_t number = 0; number < lines; ++number) {
    std::uint64_t rest = number, there = origin[last], stride = dims[last];
    bool inside = true;
    for (std::size_t dim = last; dim-- > 0;) {
      const std::uint64_t place = origin[dim] + rest % chunk[dim];
      rest /= chunk[dim];
      inside = inside && place < dims[dim];
      there += place * stride;
      stride *= dims[dim];
    }
    if (!inside) continue;
    std::memcpy(into.data() + there * element_bytes, bytes.data() + number * chunk[last] * element_bytes, line);
  }
}

std::uint32_t fletcher32(Bytes bytes) noexcept {
  const auto byte = [&](std::size_t place) { return std::to_integer<std::uint32_t>(bytes[place]); };
  const auto folded = [](std::uint32_t sum) { return (sum & 0xFFFF) + (sum >> 16); };
  // As many words as both sums take without an overflow of 32 bits.
  constexpr std::size_t kWords = 360;
  std::uint32_t first = 0, second = 0;
  const std::size_t even = bytes.size() / 2 * 2;
  for (std::size_t begin = 0; begin < even; begin += 2 * kWords) {
    for (std::size_t i = begin; i < std::min(even, begin + 2 * kWords); i += 2) {
      first += byte(i) << 8 | byte(i + 1);
      second += first;
    }
    first = folded(first);
    second = folded(second);
  }
  if (even < bytes.size()) {
    first += byte(even) << 8;
    second += first;
    first = folded(first);
    second = folded(second);
  }
  return folded(second) << 16 | folded(first);
}

}  // namespace lockstep::data::hdf5
