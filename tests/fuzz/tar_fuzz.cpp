// tests/fuzz/tar_fuzz.cpp
//
// Feeds any bytes to the reader of tar archives. A header's checksum would stop nearly
// every change at the door, so each input is also tried with the checksums set right.
#include <cstddef>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include "format_fuzz.h"

namespace {

constexpr std::size_t kBlock = 512, kChecksum = 148, kChecksumBytes = 8;

/// Of every block that could be a header.
std::vector<std::uint8_t> with_checksums(std::vector<std::uint8_t> bytes) {
  for (std::size_t at = 0; at + kBlock <= bytes.size(); at += kBlock) {
    std::uint8_t* block = bytes.data() + at;
    if (block[257] != 'u') continue;  // of "ustar"
    std::fill_n(block + kChecksum, kChecksumBytes, std::uint8_t{' '});
    unsigned sum = 0;
    for (std::size_t i = 0; i < kBlock; ++i) sum += block[i];
    const auto digits = fmt::format("{:06o}", sum);
    std::copy(digits.begin(), digits.end(), block + kChecksum);
  }
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::data;
  scan_and_read("tar", text_of(data, size));
  const auto right = with_checksums({data, data + size});
  scan_and_read("tar", text_of(right.data(), right.size()));
  return 0;
}
