// lockstep/parallel/tree_sum.h
//
// Sums the tensors of virtual shards that one rank works through one after another, in
// the order of the one fixed tree (comm/tree.h), so that the bits do not depend on which
// rank holds which shards. Keeps one tensor per level of the tree, not one per shard.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep::parallel {

class TreeSum {
 public:
  /// `value` is that of shard `number` of this rank, which come in order from 0 on. It becomes the sum of the
  /// subtree that this shard completes: after the last of 2^k shards, of them all.
  void fold_(at::Tensor& value, std::uint32_t number) const;
  /// Keeps a folded `value` until its other half comes.
  void keep(const at::Tensor& value, std::uint32_t number);

 private:
  std::vector<at::Tensor> levels_;
};

}  // namespace lockstep::parallel
