// lockstep/comm/copy_bytes.h
//
// Copies memory that may overlap. An empty tensor has no memory: both pointers may be
// null then, which memcpy does not allow.
#pragma once

#include <cstddef>
#include <cstring>

namespace lockstep::comm {

inline void copy_bytes(void* to, const void* from, std::size_t bytes) noexcept {
  if (bytes > 0) std::memmove(to, from, bytes);
}

}  // namespace lockstep::comm
