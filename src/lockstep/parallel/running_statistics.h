// lockstep/parallel/running_statistics.h
//
// Buffers that forward changes, such as the means of a batch norm, kept one over virtual
// shards: each shard starts from the same buffers, and the step ends with their mean over all
// shards that had samples (of integers, which count batches and grow alike, the same).
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/parameter.h"
#include "lockstep/parallel/tree_sum.h"

namespace lockstep::parallel {

class RunningStatistics {
 public:
  /// Buffers become those of rank 0.
  RunningStatistics(Parameters buffers, comm::Communicator& group);

  /// Around forward of shard `number` of this rank, from 0 on.
  void begin_shard(int number);
  void end_shard(int number, int count, bool had_samples);
  /// Buffers as they are now, and back to them, for a step that is not taken. begin_shard(0) remembers too.
  void remember();
  void go_back();
  /// After the last one; `shards` is the number of those that had samples, on all ranks.
  void finish(int shards);
  /// Without shards every rank goes its own way; those of rank 0 are what is tested and saved.
  void take_from_first_rank();

 private:
  at::Tensor gathered() const;
  void spread(const at::Tensor& values);

  Parameters buffers_;
  comm::Communicator& group_;
  std::vector<at::Tensor> before_;
  at::Tensor sum_;  // of all buffers, as float64
  TreeSum tree_;
};

}  // namespace lockstep::parallel
