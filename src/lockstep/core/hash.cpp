#include "lockstep/core/hash.h"

#include <new>

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace lockstep {
namespace {

XXH3_state_t* state_of(void* state) { return static_cast<XXH3_state_t*>(state); }

}  // namespace

std::uint64_t hash64(const void* data, std::size_t bytes, std::uint64_t seed) noexcept {
  return XXH3_64bits_withSeed(data, bytes, seed);
}

Hasher::Hasher() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH3_128bits_reset(state_of(state_));
}

Hasher::~Hasher() { XXH3_freeState(state_of(state_)); }

void Hasher::update(const void* data, std::size_t bytes) noexcept {
  // xxHash 0.8.1 computes data + bytes even for the null data of an empty piece.
  if (bytes > 0) XXH3_128bits_update(state_of(state_), data, bytes);
}

std::string Hasher::hex() const {
  const auto digest = XXH3_128bits_digest(state_of(state_));
  return fmt::format("{:016x}{:016x}", digest.high64, digest.low64);
}

}  // namespace lockstep
