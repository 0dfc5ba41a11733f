// lockstep/comm/slice.h
//
// How a run of elements is cut among those who work on it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace lockstep::comm {

struct Slice {
  std::int64_t begin;
  std::int64_t end;
  std::int64_t count() const noexcept { return end - begin; }
};

/// Part `index` of `count` elements in `parts`; cut on cache lines where possible.
inline Slice slice_of(std::int64_t count, int parts, int index, std::size_t element_bytes) noexcept {
  const std::int64_t per_line = std::max<std::int64_t>(1, 64 / static_cast<std::int64_t>(element_bytes));
  const std::int64_t lines = (count + per_line - 1) / per_line;
  const auto cut = [&](std::int64_t part) { return std::min(count, lines * part / parts * per_line); };
  return {cut(index), cut(index + 1)};
}

}  // namespace lockstep::comm
