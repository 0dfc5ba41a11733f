// lockstep/data/permutation.h
//
// A shuffle of [0, size) without a table: each number's place is computed from a key,
// in O(1) memory and constant expected time, and back.
#pragma once

#include <cstdint>

namespace lockstep::data {

class Permutation {
 public:
  Permutation(std::uint64_t size, std::uint64_t key) noexcept;
  std::uint64_t operator()(std::uint64_t place) const noexcept;
  /// The place of a number: inverse((*this)(i)) == i.
  std::uint64_t inverse(std::uint64_t number) const noexcept;

 private:
  std::uint64_t forward(std::uint64_t word) const noexcept;
  std::uint64_t backward(std::uint64_t word) const noexcept;
  std::uint64_t round(int number, std::uint64_t half) const noexcept;

  std::uint64_t size_;
  std::uint64_t key_;
  int low_bits_ = 1;
  int high_bits_ = 1;
};

}  // namespace lockstep::data
