#include "lockstep/comm/tree.h"

#include <functional>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "lockstep/core/error.h"

namespace lockstep::comm {

void PrintTo(const TreeNode& node, std::ostream* out) { *out << '[' << node.first << ", " << node.end() << ')'; }

namespace {

using Nodes = std::vector<TreeNode>;

/// Every node of the tree over `leaves`, with its parent.
void visit(TreeNode node, TreeNode parent, const std::function<void(TreeNode, TreeNode)>& see) {
  see(node, parent);
  if (node.leaf()) return;
  visit(node.left(), node, see);
  visit(node.right(), node, see);
}

bool all_held(TreeNode node, const std::vector<bool>& held) {
  for (int leaf = node.first; leaf < node.end(); ++leaf) {
    if (!held[static_cast<std::size_t>(leaf)]) return false;
  }
  return true;
}

TEST(Tree, LeftChildTakesTheSmallerHalf) {
  const TreeNode root{0, 5};
  EXPECT_EQ(root.left(), (TreeNode{0, 2}));
  EXPECT_EQ(root.right(), (TreeNode{2, 3}));
  EXPECT_EQ(root.right().left(), (TreeNode{2, 1}));
  EXPECT_TRUE(root.right().left().leaf());
}

TEST(CoveringNodes, OfSmallTrees) {
  EXPECT_EQ(covering_nodes({true}), (Nodes{{0, 1}}));
  EXPECT_EQ(covering_nodes({false}), Nodes{});
  EXPECT_EQ(covering_nodes({true, true, true, true}), (Nodes{{0, 4}}));
  EXPECT_EQ(covering_nodes({false, false, false}), Nodes{});
  EXPECT_EQ(covering_nodes({true, true, false, true}), (Nodes{{0, 2}, {3, 1}}));
  // Neighbours of different parents stay apart.
  EXPECT_EQ(covering_nodes({false, true, true, false}), (Nodes{{1, 1}, {2, 1}}));
  // Over 5 leaves the halves are 2 and 3.
  EXPECT_EQ(covering_nodes({false, false, true, true, true}), (Nodes{{2, 3}}));
}

TEST(NodesWithin, AreTheCoveringOnesOfARun) {
  for (int leaves = 1; leaves <= 20; ++leaves) {
    for (int first = 0; first <= leaves; ++first) {
      for (int end = first; end <= leaves; ++end) {
        std::vector<bool> held(static_cast<std::size_t>(leaves));
        std::fill(held.begin() + first, held.begin() + end, true);
        EXPECT_EQ(nodes_within({0, leaves}, first, end), covering_nodes(held)) << first << " " << end << " " << leaves;
      }
    }
  }
  EXPECT_EQ(nodes_within({0, 0}, 0, 0), Nodes{});
}

TEST(CoveringNodes, AreTheLargestOfAnyChoice) {
  std::mt19937 random(7);
  for (int leaves = 1; leaves <= 33; ++leaves) {
    for (int trial = 0; trial < 50; ++trial) {
      std::vector<bool> held;
      for (int leaf = 0; leaf < leaves; ++leaf) held.push_back(random() % 4 != 0);
      // By the definition: held, and the parent is not.
      Nodes wanted;
      visit({0, leaves}, {0, leaves}, [&](TreeNode node, TreeNode parent) {
        const bool root = node.count == leaves;
        if (all_held(node, held) && (root || !all_held(parent, held))) wanted.push_back(node);
      });
      EXPECT_EQ(covering_nodes(held), wanted) << leaves << " leaves";
    }
  }
}

TEST(ShardsOfRank, ThreeRanksOfSixteenHoldEightFourAndFour) {
  EXPECT_EQ(shards_of_rank(16, 3, 0), (TreeNode{0, 8}));
  EXPECT_EQ(shards_of_rank(16, 3, 1), (TreeNode{8, 4}));
  EXPECT_EQ(shards_of_rank(16, 3, 2), (TreeNode{12, 4}));
}

TEST(ShardsOfRank, OddNumbersOfRanks) {
  const auto sizes = [](int shards, int ranks) {
    std::vector<int> result;
    for (int rank = 0; rank < ranks; ++rank) result.push_back(shards_of_rank(shards, ranks, rank).count);
    return result;
  };
  EXPECT_EQ(sizes(16, 1), std::vector<int>({16}));
  EXPECT_EQ(sizes(16, 5), std::vector<int>({4, 4, 4, 2, 2}));
  EXPECT_EQ(sizes(8, 7), std::vector<int>({2, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(sizes(1, 1), std::vector<int>({1}));
}

TEST(ShardsOfRank, AreAlignedSubtreesThatCoverAllShards) {
  for (int shards = 1; shards <= 128; shards *= 2) {
    for (int ranks = 1; ranks <= shards; ++ranks) {
      int next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const TreeNode own = shards_of_rank(shards, ranks, rank);
        EXPECT_EQ(own.first, next);
        EXPECT_EQ(own.count & (own.count - 1), 0) << own.count << " is not a power of two";
        EXPECT_EQ(own.first % own.count, 0) << "not a node of the tree over all shards";
        next = own.end();
      }
      EXPECT_EQ(next, shards) << ranks << " ranks";
    }
  }
}

// What makes the bits independent of the number of ranks: the tree of ranks, each
// replaced by its shards, is the tree of shards.
TEST(ShardsOfRank, PutTheTreeOfRanksOnTopOfTheTreeOfShards) {
  const std::function<std::string(TreeNode)> of_shards = [&](TreeNode node) -> std::string {
    if (node.leaf()) return std::to_string(node.first);
    return "(" + of_shards(node.left()) + "+" + of_shards(node.right()) + ")";
  };
  constexpr int kShards = 32;
  for (int ranks = 1; ranks <= kShards; ++ranks) {
    const std::function<std::string(TreeNode)> of_ranks = [&](TreeNode node) -> std::string {
      if (node.leaf()) return of_shards(shards_of_rank(kShards, ranks, node.first));
      return "(" + of_ranks(node.left()) + "+" + of_ranks(node.right()) + ")";
    };
    EXPECT_EQ(of_ranks({0, ranks}), of_shards({0, kShards})) << ranks << " ranks";
  }
}

TEST(ShardsOfRank, RefusesWhatHasNoAnswer) {
  EXPECT_THROW(shards_of_rank(12, 3, 0), Error);
  EXPECT_THROW(shards_of_rank(0, 1, 0), Error);
  EXPECT_THROW(shards_of_rank(-4, 1, 0), Error);
  EXPECT_THROW(shards_of_rank(16, 17, 0), Error);
  EXPECT_THROW(shards_of_rank(16, 3, 3), Error);
  EXPECT_THROW(shards_of_rank(16, 3, -1), Error);
  EXPECT_THROW(shards_of_rank(16, 0, 0), Error);
}

}  // namespace
}  // namespace lockstep::comm
