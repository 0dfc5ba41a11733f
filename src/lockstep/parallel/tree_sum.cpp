#include "lockstep/parallel/tree_sum.h"

#include <bit>

namespace lockstep::parallel {

// Shard 0b0111 completes the subtrees of 2, 4 and 8 shards: as many as it ends in ones.
void TreeSum::fold_(at::Tensor& value, std::uint32_t number) const {
  for (int level = 0; level < std::countr_one(number); ++level) value.add_(levels_[static_cast<std::size_t>(level)]);
}

void TreeSum::keep(const at::Tensor& value, std::uint32_t number) {
  const auto level = static_cast<std::size_t>(std::countr_one(number));
  if (level >= levels_.size()) levels_.resize(level + 1);
  if (!levels_[level].defined()) {
    levels_[level] = value.clone();
  } else {
    levels_[level].copy_(value);
  }
}

}  // namespace lockstep::parallel
