// lockstep/core/random.h
//
// Random numbers as a pure function of a key and a counter (Philox 4x32-10, Salmon et
// al. 2011): what a sample gets does not depend on who asks, when, or what was asked
// before. One Random serves one thread.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace lockstep {

/// Four words for each counter.
constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// Spreads what differs in one bit over all of them (the finalizer of MurmurHash3).
constexpr std::uint64_t mix(std::uint64_t word) noexcept {
  word = (word ^ word >> 33) * 0xFF51AFD7ED558CCD;
  word = (word ^ word >> 33) * 0xC4CEB9FE1A85EC53;
  return word ^ word >> 33;
}
/// One key of several numbers, in their order.
template <class... Numbers>
constexpr std::uint64_t mix(std::uint64_t first, std::uint64_t second, Numbers... rest) noexcept {
  const std::uint64_t both = mix(mix(first) + 0x9E3779B97F4A7C15 + second);
  if constexpr (sizeof...(rest) == 0)
    return both;
  else
    return mix(both, static_cast<std::uint64_t>(rest)...);
}

class Random {
 public:
  /// The numbers of `stream`, e.g. a sample, under `key`, e.g. of seed and epoch.
  Random(std::uint64_t key, std::uint64_t stream) noexcept
      : key_{static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)}, stream_(stream) {}

  std::uint32_t next() noexcept {
    if (used_ == words_.size()) {
      words_ =
          philox({block_, 0, static_cast<std::uint32_t>(stream_), static_cast<std::uint32_t>(stream_ >> 32)}, key_);
      ++block_;
      used_ = 0;
    }
    return words_[used_++];
  }
  std::uint64_t next64() noexcept {
    const std::uint64_t high = next();
    return high << 32 | next();
  }
  /// In [0, 1).
  double uniform() noexcept { return static_cast<double>(next64() >> 11) * 0x1p-53; }
  /// In [0, bound), each equally likely up to bound / 2^64.
  std::uint64_t below(std::uint64_t bound) noexcept {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>(static_cast<Wide>(next64()) * bound >> 64);
  }
  bool chance(double probability) noexcept { return uniform() < probability; }
  /// Mean 0, deviation 1.
  double normal() noexcept {
    const double radius = std::sqrt(-2 * std::log1p(-uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  std::array<std::uint32_t, 2> key_;
  std::uint64_t stream_;
  std::uint32_t block_ = 0;
  std::array<std::uint32_t, 4> words_{};
  std::size_t used_ = 4;
};

}  // namespace lockstep
