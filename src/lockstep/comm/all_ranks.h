// lockstep/comm/all_ranks.h
#pragma once

#include <numeric>
#include <vector>

namespace lockstep::comm {

/// 0, 1, … `size` - 1: the ranks of a group of that size.
inline std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace lockstep::comm
