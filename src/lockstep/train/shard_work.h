// lockstep/train/shard_work.h
//
// Forward and backward of this rank's part of a batch: shard by shard, and each of these in
// as many pieces as the trainer accumulates.
#pragma once

#include <cstdint>
#include <functional>

#include <c10/core/Device.h>

#include "lockstep/data/batch.h"
#include "lockstep/parallel/data_parallel.h"
#include "lockstep/train/shards.h"
#include "lockstep/train/task.h"
#include "lockstep/train/trainer.h"

namespace lockstep::train {

class ShardWork {
 public:
  ShardWork(const TrainerSettings& settings, const Shards& shards, c10::Device device, Task& task,
            parallel::DataParallel& engine);

  struct Pass {
    int shard = 0;          // of this rank, from 0 on
    std::int64_t step = 0;  // of the run, from 0 on: with the shard and the seed the key of chance
    double loss_scale = 1;
    bool reduce = true;  // gradients may travel in backward of the last piece
  };
  /// Gradients are of the loss's sum over the samples of all ranks, divided by their number. `note` is called with
  /// each piece's score, before its backward.
  void pass(const data::Batch& batch, const Pass& pass, const std::function<void(const Score&, bool last)>& note);
  /// Forward alone of the batch's samples [first, last).
  Score score(const data::Batch& batch, std::int64_t first, std::int64_t last);

 private:
  data::Batch piece_of(const data::Batch& batch, std::int64_t first, std::int64_t last) const;

  const TrainerSettings& settings_;
  Shards shards_;
  c10::Device device_;
  Task& task_;
  parallel::DataParallel& engine_;
};

}  // namespace lockstep::train
