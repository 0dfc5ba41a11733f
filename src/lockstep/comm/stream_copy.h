// lockstep/comm/stream_copy.h
//
// Copies into memory that this core will not read soon: where it is long, past the caches,
// so that the lines it overwrites are not fetched first. Ordered before other stores only by
// stream_fence().
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "lockstep/comm/copy_bytes.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace lockstep::comm {

inline void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
#if defined(__SSE2__)
  constexpr std::size_t kLineBytes = 64;
  const std::size_t head =
      std::min(bytes, (kLineBytes - reinterpret_cast<std::uintptr_t>(to) % kLineBytes) % kLineBytes);
  copy_bytes(to, from, head);
  std::size_t at = head;
  for (; at + kLineBytes <= bytes; at += kLineBytes) {
    for (std::size_t part = 0; part < kLineBytes; part += sizeof(__m128i)) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + at + part),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at + part)));
    }
  }
  copy_bytes(to + at, from + at, bytes - at);
#else
  copy_bytes(to, from, bytes);
#endif
}

inline void stream_fence() noexcept {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace lockstep::comm
