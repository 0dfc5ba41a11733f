// lockstep/comm/tree.h
//
// The one fixed binary tree that every reduction follows. A node covers `count`
// neighbouring leaves from `first`; its left child takes the smaller half. The
// leaves are ranks or, where ranks hold several, virtual shards: a rank's shards
// are one aligned subtree of a power-of-two number of shards, so that the tree of
// ranks is the top of the tree of shards and the bits do not depend on the number
// of ranks.
#pragma once

#include <vector>

namespace lockstep::comm {

struct TreeNode {
  int first = 0;
  int count = 0;

  bool leaf() const noexcept { return count == 1; }
  TreeNode left() const noexcept { return {first, count / 2}; }
  TreeNode right() const noexcept { return {first + count / 2, count - count / 2}; }
  int end() const noexcept { return first + count; }
  friend bool operator==(const TreeNode&, const TreeNode&) = default;
};

/// The largest nodes of the tree over all leaves whose leaves are all `held`, from left to right.
std::vector<TreeNode> covering_nodes(const std::vector<bool>& held);

/// The largest nodes of `root` whose leaves all lie in [first, end), from left to right.
std::vector<TreeNode> nodes_within(TreeNode root, int first, int end);

/// The shards of `rank` among `ranks`: (16 shards, 3 ranks) gives 8, 4 and 4.
/// Requires `shards` to be a power of two and at least `ranks`.
TreeNode shards_of_rank(int shards, int ranks, int rank);

}  // namespace lockstep::comm
