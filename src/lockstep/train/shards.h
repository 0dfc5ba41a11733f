// lockstep/train/shards.h
//
// How a batch is cut: into virtual shards, of which every rank holds some. Without exact
// mode there is one per rank.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/tree.h"
#include "lockstep/data/loader.h"

namespace lockstep::train {

struct Shards {
  int total = 1;
  comm::TreeNode own{0, 1};

  static Shards of(const comm::Communicator& group) { return {group.size(), {group.rank(), 1}}; }
  static Shards of(const comm::Communicator& group, int total) {
    return {total, comm::shards_of_rank(total, group.size(), group.rank())};
  }

  data::Share share() const { return {own.first, own.end(), total}; }
  /// Of all ranks', how many have samples of a batch.
  int occupied(const data::Batch& batch) const {
    return static_cast<int>(std::min<std::int64_t>(total, batch.global_count));
  }
  /// Samples [first, last) of this rank's part that are of its shard `number`.
  std::pair<std::int64_t, std::int64_t> range(const data::Batch& batch, int number) const {
    const data::Share shard{own.first + number, own.first + number + 1, total};
    return {shard.first(batch.global_count) - batch.first, shard.last(batch.global_count) - batch.first};
  }
};

}  // namespace lockstep::train
