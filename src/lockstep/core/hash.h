// lockstep/core/hash.h
//
// xxHash3: fast fingerprints of bytes. Not for secrets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

std::uint64_t hash64(const void* data, std::size_t bytes, std::uint64_t seed = 0) noexcept;
inline std::uint64_t hash64(std::string_view text, std::uint64_t seed = 0) noexcept {
  return hash64(text.data(), text.size(), seed);
}

/// 128 bits as 32 hexadecimal digits, fed in any number of pieces.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void update(const void* data, std::size_t bytes) noexcept;
  std::string hex() const;

 private:
  void* state_;
};

}  // namespace lockstep
