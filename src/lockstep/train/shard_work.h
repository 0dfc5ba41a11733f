// lockstep/train/shard_work.h
//
// Forward and backward of this rank's part of a batch: shard by shard, and each of these in
// as many pieces as the trainer accumulates. With a pipeline the pieces are its micro-batches.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include <c10/core/Device.h>

#include "lockstep/data/batch.h"
#include "lockstep/parallel/gradient_engine.h"
#include "lockstep/parallel/mesh.h"
#include "lockstep/parallel/pipeline.h"
#include "lockstep/train/shards.h"
#include "lockstep/train/task.h"
#include "lockstep/train/trainer.h"

namespace lockstep::train {

class ShardWork {
 public:
  /// Fault::Usage if the task cannot be taken apart as the mesh asks for.
  ShardWork(const TrainerSettings& settings, parallel::Mesh& mesh, const Shards& shards, c10::Device device, Task& task,
            parallel::GradientEngine& engine, MemoryMeter& memory);

  struct Pass {
    int shard = 0;          // of this rank, from 0 on
    std::int64_t step = 0;  // of the run, from 0 on: with the samples and the seed the key of chance
    double loss_scale = 1;
    bool reduce = true;  // gradients may travel in backward of the last piece
  };
  /// Called with the score of each piece, before its backward, where this rank has one.
  using Note = std::function<void(const Score&, bool last)>;

  /// Whether scores of this rank count: where others have the same, or none, only one has.
  bool counts() const noexcept { return counts_; }
  /// Gradients are of the loss's sum over the samples of all ranks, divided by their number.
  void pass(const data::Batch& batch, const Pass& pass, const Note& note);
  /// Forward alone of the batch's samples [first, last), which may be none; none on a rank without the outputs. These
  /// are of all classes `with_outputs`, else undefined.
  std::optional<Score> score(const data::Batch& batch, std::int64_t first, std::int64_t last, bool with_outputs);

 private:
  class Feed;
  struct Range {
    std::int64_t first, last;
    bool empty() const noexcept { return first == last; }
  };
  Range piece(const data::Batch& batch, const Pass& pass, std::int64_t number, std::int64_t pieces) const;
  bool passes_over(const data::Batch& batch, const Pass& pass, std::int64_t number, std::int64_t pieces) const;
  void begin(const data::Batch& batch, const Pass& pass, const Range& range) const;
  data::Batch prepared(const data::Batch& batch, const Range& range) const;
  data::Batch cut(const data::Batch& batch, const Range& range) const;
  at::Tensor divided(const at::Tensor& loss, const data::Batch& batch, const Pass& pass) const;
  parallel::ChainPass::Options pass_options() const;
  parallel::ChainPass pass_of_all() const;
  void through_chain(const data::Batch& piece, const data::Batch& batch, const Pass& pass, bool last, const Note& note);
  const parallel::PipelineSchedule& schedule(int micro_batches);

  const TrainerSettings& settings_;
  Shards shards_;
  c10::Device device_;
  Task& task_;
  ChainTask* chain_task_;  // nullptr: it is whole
  parallel::GradientEngine& engine_;
  MemoryMeter& memory_;
  std::optional<parallel::Pipeline> pipeline_;
  std::optional<parallel::PipelineSchedule> schedule_;
  bool counts_;
  bool checks_first_;  // what is wrong with samples, as what they pass through might not say so
};

}  // namespace lockstep::train
