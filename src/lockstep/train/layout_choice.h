// lockstep/train/layout_choice.h
//
// Which layout a run should have, of what its links cost. The rule: data parallelism moves gradients, twice
// in every step; tensor parallelism moves the activations of every pair of layers that are split, with every
// micro-batch; of the layouts that fit into memory and lose the least time to ranks without work, stages that
// wait or activations that are computed again, the one that moves least is taken.
//
// This is the seam for a planner that knows links and machines: it takes the same and gives the same.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/parallel/link_costs.h"
#include "lockstep/parallel/memory_use.h"
#include "lockstep/train/layout.h"

namespace lockstep::train {

/// Where layers are split over so many ranks; an Error if they cannot be.
using CostsBySplit = std::function<const parallel::ModelCosts&(int tensor)>;

struct LayoutLimits {
  bool fits_on_hosts(int split) const;
  bool keeps_to_hosts(const Layout& layout) const;

  int ranks = 1;
  int ranks_of_host = 1;  // ranks of the tensor axis stay on one host
  /// How many of them are sure to, for hosts need not hold whole groups. None: as many as a host has.
  std::function<int(const Layout& layout)> tensor_ranks_on_host = {};
  std::int64_t memory_bytes = 0;       // of a rank; 0: any
  Layout given = {};                   // what is not chosen: schedule, chunks, micro-batches, units
  std::vector<std::size_t> cuts = {};  // the first links of the stages; empty: balanced
  /// What somebody has fixed.
  std::optional<int> data = {}, tensor = {}, pipe = {}, zero = {};
  std::optional<std::int64_t> recompute_every = {};
  std::string why_not_cut = {}, why_not_shared_out = {};  // "": models may be cut, states be shared out
  int least_zero = 0;                                     // what is given needs it
  /// Over how many ranks one copy is shared out. None: as it is given.
  std::function<int(const Layout& layout)> zero_ranks = {};
  /// Fails on those with which a run would not begin; `sparse`: some gradients come as rows. None: all may be.
  std::function<void(const Layout& layout, bool sparse)> check = {};
};

/// What a layout would be like.
struct LayoutOutlook {
  Layout layout;
  parallel::MemoryUse memory;  // of the rank that takes most
  // Bytes that a rank moves in a step, along each axis.
  double data_bytes = 0, tensor_bytes = 0, pipe_bytes = 0;
  double slowdown = 1;  // of the time that a step would take if no rank ever waited or did work twice

  double moved_bytes() const noexcept { return data_bytes + tensor_bytes + pipe_bytes; }
};
LayoutOutlook outlook(const parallel::ModelCosts& costs, const Layout& layout, const RunFacts& facts);
/// An order for lists, memory aside: by the time that is lost, in steps of a percent, then by what moves.
bool comes_before(const LayoutOutlook& one, const LayoutOutlook& other);

struct LayoutChoice {
  LayoutOutlook chosen;
  bool fits = true;                  // else it is the one that takes the least memory
  std::vector<std::string> reasons;  // for the user, a line each
};
/// A run that goes on keeps what was chosen `before`, if that fits and may still be: measured anew, another might come
/// first.
LayoutChoice choose_layout(const CostsBySplit& costs, const LayoutLimits& limits, const RunFacts& facts,
                           const std::optional<Layout>& before = {});

}  // namespace lockstep::train
