#include "lockstep/data/permutation.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "lockstep/core/random.h"

namespace lockstep::data {
namespace {

// Even, so that halves of unequal width are back in their places at the end.
constexpr int kRounds = 6;
constexpr int kLeastBits = 8;

constexpr std::uint64_t ones(int bits) { return (std::uint64_t{1} << bits) - 1; }

}  // namespace

// A Feistel network is a bijection on words of some bits, whatever its rounds compute. Words
// beyond the size are sent through again until one is inside (cycle walking): less than twice
// on average, since there are fewer than twice as many words as numbers. Only tiny sizes walk
// longer: halves of a bit or two would prefer some places.
Permutation::Permutation(std::uint64_t size, std::uint64_t key) noexcept : size_(size), key_(mix(key)) {
  const int bits = std::max(kLeastBits, static_cast<int>(std::bit_width(size > 0 ? size - 1 : 0)));
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
}

std::uint64_t Permutation::round(int number, std::uint64_t half) const noexcept {
  return mix(half + key_ + static_cast<std::uint64_t>(number) * 0x9E3779B97F4A7C15);
}

std::uint64_t Permutation::forward(std::uint64_t word) const noexcept {
  std::uint64_t high = word >> low_bits_, low = word & ones(low_bits_);
  int high_bits = high_bits_, low_bits = low_bits_;
  for (int number = 0; number < kRounds; ++number) {
    high = (high ^ round(number, low)) & ones(high_bits);
    std::swap(high, low);
    std::swap(high_bits, low_bits);
  }
  return high << low_bits_ | low;
}

std::uint64_t Permutation::backward(std::uint64_t word) const noexcept {
  std::uint64_t high = word >> low_bits_, low = word & ones(low_bits_);
  int high_bits = high_bits_, low_bits = low_bits_;
  for (int number = kRounds - 1; number >= 0; --number) {
    std::swap(high, low);
    std::swap(high_bits, low_bits);
    high = (high ^ round(number, low)) & ones(high_bits);
  }
  return high << low_bits_ | low;
}

std::uint64_t Permutation::operator()(std::uint64_t place) const noexcept {
  do {
    place = forward(place);
  } while (place >= size_);
  return place;
}

std::uint64_t Permutation::inverse(std::uint64_t number) const noexcept {
  do {
    number = backward(number);
  } while (number >= size_);
  return number;
}

}  // namespace lockstep::data
