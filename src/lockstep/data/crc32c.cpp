#include "lockstep/data/crc32c.h"

#include <array>
#include <cstring>

#ifdef __x86_64__
#include <nmmintrin.h>
#endif

namespace lockstep::data {
namespace {

constexpr std::uint32_t kPolynomial = 0x82F63B78;  // bits reversed

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ (rest & 1 ? kPolynomial : 0);
    table[byte] = rest;
  }
  return table;
}
constexpr auto kTable = make_table();

#ifdef __x86_64__
__attribute__((target("sse4.2"))) std::uint32_t crc32c_by_instruction(Bytes bytes) noexcept {
  std::uint64_t rest = UINT32_MAX;
  while (bytes.size() >= sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    rest = _mm_crc32_u64(rest, word);
    bytes = bytes.subspan(sizeof word);
  }
  auto narrow = static_cast<std::uint32_t>(rest);
  for (const auto byte : bytes) narrow = _mm_crc32_u8(narrow, std::to_integer<std::uint8_t>(byte));
  return ~narrow;
}
#endif

}  // namespace

std::uint32_t crc32c_by_table(Bytes bytes) noexcept {
  std::uint32_t rest = UINT32_MAX;
  for (const auto byte : bytes) rest = rest >> 8 ^ kTable[(rest ^ std::to_integer<std::uint32_t>(byte)) & 0xFF];
  return ~rest;
}

std::uint32_t crc32c(Bytes bytes) noexcept {
#ifdef __x86_64__
  if (__builtin_cpu_supports("sse4.2")) return crc32c_by_instruction(bytes);
#endif
  return crc32c_by_table(bytes);
}

}  // namespace lockstep::data
