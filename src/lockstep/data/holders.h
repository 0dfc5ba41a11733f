// lockstep/data/holders.h
//
// Which rank holds which samples with cache = "cluster": rank after rank a run of them,
// of nearly equal length. What is packed in blocks is read block by block, so runs end
// where blocks do, and no block is read by two ranks. Where columns disagree, the one
// with the most bytes decides; others follow if that leaves every rank something.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/data/cached_file.h"
#include "lockstep/data/index.h"

namespace lockstep::data {

/// The run of samples that a rank holds.
struct HeldSamples {
  std::int64_t first = 0;
  std::int64_t end = 0;
};

class Holders {
 public:
  /// Of samples that lie anywhere.
  Holders(std::int64_t samples, int ranks);
  /// Of files one behind the other.
  Holders(const std::vector<Index>& files, int ranks);

  int ranks() const noexcept { return static_cast<int>(ends_.size()); }
  HeldSamples held_by(int rank) const;
  /// The rank whose run has the sample `id`.
  int holder_of(std::int64_t id) const;

 private:
  std::vector<std::int64_t> ends_;  // by rank
};

/// Where samples [held.first, held.end) of an index lie, by file: ascending and apart.
std::vector<std::vector<Interval>> intervals_of(const Index& index, HeldSamples held);

}  // namespace lockstep::data
