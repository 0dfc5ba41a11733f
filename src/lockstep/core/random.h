// lockstep/core/random.h
//
// Random numbers as a pure function of (seed, stream, place): Philox4x32-10 of Salmon et
// al., "Parallel random numbers: as easy as 1, 2, 3" (2011). Whoever draws number n of
// stream s gets the same, on any rank and thread, and nobody has a state to pass on.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace lockstep {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

constexpr PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) noexcept {
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t first = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t second = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(second >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(second),
               static_cast<std::uint32_t>(first >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(first)};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
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

/// The numbers of one stream, from its first on.
class Random {
 public:
  Random(std::uint64_t seed, std::uint64_t stream) noexcept : seed_(seed), stream_(stream) {}

  std::uint32_t bits32() noexcept {
    if (used_ == block_.size()) refill();
    return block_[used_++];
  }
  std::uint64_t bits64() noexcept {
    const std::uint64_t high = bits32();
    return high << 32 | bits32();
  }
  /// In [0, 1), of 53 bits.
  double uniform() noexcept { return static_cast<double>(bits64() >> 11) * 0x1p-53; }
  double uniform(double low, double high) noexcept { return low + (high - low) * uniform(); }
  /// In [0, end), each as likely but for 2^-64.
  std::uint64_t below(std::uint64_t end) noexcept {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>(Wide{bits64()} * end >> 64);
  }
  bool chance(double probability) noexcept { return uniform() < probability; }
  /// Mean 0, variance 1, by Box and Muller. The second of each pair is dropped, so that every number
  /// takes as many bits as any other.
  double normal() noexcept {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  void refill() noexcept {
    block_ = philox4x32({low(place_), high(place_), low(stream_), high(stream_)}, {low(seed_), high(seed_)});
    ++place_;
    used_ = 0;
  }
  static std::uint32_t low(std::uint64_t word) noexcept { return static_cast<std::uint32_t>(word); }
  static std::uint32_t high(std::uint64_t word) noexcept { return static_cast<std::uint32_t>(word >> 32); }

  std::uint64_t seed_;
  std::uint64_t stream_;
  std::uint64_t place_ = 0;
  PhiloxCounter block_{};
  std::size_t used_ = block_.size();
};

}  // namespace lockstep
