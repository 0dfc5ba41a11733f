#include "lockstep/comm/tree.h"

#include <bit>

#include <fmt/format.h>

#include "lockstep/core/error.h"

namespace lockstep::comm {
namespace {

/// Whether all leaves of `node` are held; appends the largest held nodes below it if not.
bool cover(TreeNode node, const std::vector<bool>& held, std::vector<TreeNode>& nodes) {
  if (node.leaf()) return held[static_cast<std::size_t>(node.first)];
  const std::size_t before = nodes.size();
  const bool left = cover(node.left(), held, nodes);
  if (left) nodes.push_back(node.left());
  const bool right = cover(node.right(), held, nodes);
  if (left && right) {
    nodes.resize(before);
    return true;
  }
  if (right) nodes.push_back(node.right());
  return false;
}

void add_nodes_within(TreeNode node, int first, int end, std::vector<TreeNode>& nodes) {
  if (node.first >= end || node.end() <= first) return;
  if (node.first >= first && node.end() <= end) {
    nodes.push_back(node);
    return;
  }
  add_nodes_within(node.left(), first, end, nodes);
  add_nodes_within(node.right(), first, end, nodes);
}

}  // namespace

std::vector<TreeNode> nodes_within(TreeNode root, int first, int end) {
  std::vector<TreeNode> nodes;
  if (root.count > 0) add_nodes_within(root, first, end, nodes);
  return nodes;
}

std::vector<TreeNode> covering_nodes(const std::vector<bool>& held) {
  std::vector<TreeNode> nodes;
  const TreeNode root{0, static_cast<int>(held.size())};
  if (cover(root, held, nodes)) nodes.push_back(root);
  return nodes;
}

TreeNode shards_of_rank(int shards, int ranks, int rank) {
  if (shards < 1 || !std::has_single_bit(static_cast<unsigned>(shards))) {
    fail(Fault::Usage, fmt::format("shards={} is not a power of two", shards));
  }
  if (ranks > shards) {
    fail(Fault::Usage,
         fmt::format("{} ranks are more than {} shards; use at most {} ranks or more shards", ranks, shards, shards));
  }
  if (rank < 0 || rank >= ranks) fail(Fault::Usage, fmt::format("rank {} is not one of {} ranks", rank, ranks));
  TreeNode of_ranks{0, ranks};
  TreeNode of_shards{0, shards};
  while (!of_ranks.leaf()) {
    const bool left = rank < of_ranks.left().end();
    of_ranks = left ? of_ranks.left() : of_ranks.right();
    of_shards = left ? of_shards.left() : of_shards.right();
  }
  return of_shards;
}

}  // namespace lockstep::comm
