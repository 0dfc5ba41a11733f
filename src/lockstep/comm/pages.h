// lockstep/comm/pages.h
//
// How memory that ranks share is laid out: in whole pages.
#pragma once

#include <cstddef>

namespace lockstep::comm {

inline constexpr std::size_t kPage = 4096;
inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// The next multiple of `unit`.
constexpr std::size_t round_up(std::size_t value, std::size_t unit) noexcept {
  return (value + unit - 1) / unit * unit;
}

}  // namespace lockstep::comm
