#include "lockstep/comm/tree.h"

#include <bit>

#include <fmt/format.h>

#include "lockstep/core/error.h"

namespace lockstep::comm {
namespace {

void cover(TreeNode node, int first, int end, std::vector<TreeNode>& nodes) {
  if (node.end() <= first || node.first >= end) return;
  if (node.first >= first && node.end() <= end) {
    nodes.push_back(node);
    return;
  }
  cover(node.left(), first, end, nodes);
  cover(node.right(), first, end, nodes);
}

}  // namespace

std::vector<TreeNode> covering_nodes(int leaves, int first, int end) {
  std::vector<TreeNode> nodes;
  cover({0, leaves}, first, end, nodes);
  return nodes;
}

TreeNode shards_of_rank(int shards, int ranks, int rank) {
  if (shards < 1 || !std::has_single_bit(static_cast<unsigned>(shards))) {
    fail(Fault::Usage, fmt::format("shards={} is not a power of two", shards));
  }
  if (ranks > shards) {
    fail(Fault::Usage, fmt::format("{} ranks are more than {} shards; use at most {} ranks or more shards", ranks,
                                   shards, shards));
  }
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
