// lockstep/comm/reduce.h
//
// The arithmetic of reductions: inputs that each cover a node of the tree are
// combined in the tree's order and stored into every output. Half types are
// accumulated in float32 and rounded once. The same bits come out of every
// instruction set.
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/comm/tree.h"
#include "lockstep/comm/types.h"

namespace lockstep::comm {

/// What inputs or outputs hold: elements of the tensor's type, or partial results
/// in accumulate_type().
enum class Stage : std::uint8_t { Elements, Partials };

struct TreeReduction {
  c10::ScalarType type = c10::ScalarType::Float;
  ReduceOp op = ReduceOp::Sum;
  /// Divides the final result of Avg: the number of leaves of the whole tree.
  int leaves = 1;
};

/// Inputs are in leaf order; input i covers the leaves from first_leaf[i] to the
/// next input's, the last one to root.end(). Together they cover `root`. An output
/// may be one of the inputs.
void reduce_tree(const TreeReduction& reduction, TreeNode root, std::span<const int> first_leaf,
                 std::span<const void* const> inputs, Stage input_stage, std::span<void* const> outputs,
                 Stage output_stage, std::int64_t count);

/// 0, 1, … `count` - 1: the first leaves where every input is a leaf.
std::span<const int> leaf_numbers(int count);

/// The common case: one input per leaf, elements in, finished elements out.
void reduce_leaves(const TreeReduction& reduction, std::span<const void* const> inputs, std::span<void* const> outputs,
                   std::int64_t count);

/// Fails with Fault::Usage when `op` on `type` has no meaning or no kernel.
void check_reducible(c10::ScalarType type, ReduceOp op);

}  // namespace lockstep::comm
