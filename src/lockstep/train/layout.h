// lockstep/train/layout.h
//
// How a run is laid out over ranks, as numbers: what is foretold of it and chosen for it needs no more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace lockstep::train {

/// What of a run's state lies on disk instead.
inline constexpr const char kOffloadNothing[] = "none";
inline constexpr const char kOffloadOptimizer[] = "optimizer";
inline constexpr const char kOffloadAll[] = "all";

struct Layout {
  int data = 1, tensor = 1, pipe = 1;  // ranks of the axes
  std::string schedule = "1f1b";       // of the pipeline
  int chunks = 1;
  std::vector<std::size_t> cuts = {};  // the first links of the stages, and the number of links; empty: balanced
  bool cuts_are_measured = false;      // found by what links take, not given nor by the sizes of their matrices
  std::int64_t micro_batches = 1;
  int zero = 0, zero_ranks = 0;  // see TrainerSettings
  std::int64_t unit_bytes = std::int64_t{1} << 20;
  std::int64_t recompute_every = 0;
  std::string offload = kOffloadNothing;

  int ranks() const noexcept { return data * tensor * pipe; }
  /// "data 2, tensor 2, zero 1, recompute".
  std::string text() const;
};

/// What a checkpoint keeps of it, and what that says; none of null.
nlohmann::json noted(const Layout& layout);
std::optional<Layout> noted_layout(const nlohmann::json& noted);

/// Of the hosts that ranks are on, by rank: the ranks of the one that has the fewest.
int fewest_ranks_of_a_host(const std::vector<int>& hosts);

/// What a run is beside its layout.
struct RunFacts {
  /// Samples of a step, of all ranks together, where so many share them.
  std::function<std::int64_t(int data_ranks)> batch;
  std::int64_t optimizer_states = 0;  // numbers that are remembered of each weight
  std::int64_t staging_bytes = 0;     // of a checkpoint; 0: there is none
  /// Whether a fused step shares the optimiser's states out; `sparse`: some gradients come as rows.
  std::function<bool(const Layout&, bool sparse)> fuses;

  bool disk_is_memory = false;  // what would lie in a file is in memory all the same (tmpfs)
  bool measured = true;         // stages are balanced by what links take, else by the sizes of their matrices

  // Of a rank that has most.
  std::int64_t samples_of_rank(const Layout& layout) const;
  std::int64_t samples_at_once(const Layout& layout) const;  // of a micro-batch
  /// Micro-batches of a step: without a pipeline there are none without samples.
  std::int64_t pieces(const Layout& layout) const;
};

}  // namespace lockstep::train
