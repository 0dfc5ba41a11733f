// lockstep/ml/kernels/padded.h
#pragma once

#include <cstdint>

namespace lockstep::ml {

/// Of `doubles` so many that the next ones begin on a boundary of 64 bytes if these do: whole lines of a cache.
constexpr std::int64_t padded(std::int64_t doubles) noexcept { return (doubles + 7) / 8 * 8; }

}  // namespace lockstep::ml
