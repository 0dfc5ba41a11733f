// lockstep/ml/kernels/padded.h
#pragma once

#include <cstdint>

namespace lockstep::ml {

/// Doubles from one row of sums to the next: whole lines of a cache.
constexpr std::int64_t padded(std::int64_t columns) noexcept { return (columns + 7) / 8 * 8; }

}  // namespace lockstep::ml
