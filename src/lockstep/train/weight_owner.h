// lockstep/train/weight_owner.h
//
// Who of the ranks of the data axis has which weights of a run: all have all of them, or they share
// them out (parallel.zero). Makes the engine that is right for it, and says what a rank saves and loads.
#pragma once

#include <memory>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/data_parallel.h"
#include "lockstep/parallel/mesh.h"
#include "lockstep/parallel/sharded_parallel.h"
#include "lockstep/train/resumption.h"
#include "lockstep/train/task.h"
#include "lockstep/train/trainer.h"

namespace lockstep::train {

class WeightOwner {
 public:
  /// `fused`: new weights are made of gradients as soon as these are summed, which shares out what the optimiser
  /// remembers by itself. A collective of the mesh.
  WeightOwner(const TrainerSettings& settings, parallel::Mesh& mesh, Task& task, bool fused, c10::Device device);

  parallel::GradientEngine& engine() noexcept { return *engine_; }
  /// If all ranks have all weights; else nullptr.
  parallel::DataParallel* replicated() noexcept { return replicated_; }
  /// Ranks that have the same as this one.
  comm::Communicator& replicas() noexcept { return sharded_ != nullptr ? *copies_ : data_; }

  /// After resume() has read what is not trained: weights of this rank's shards. A collective.
  void load(Resumed& resumed);
  /// What this rank has of a checkpoint's weights and buffers, and which parts of them. The checkpoint may refer to it.
  void note(Checkpoint& checkpoint) const;

 private:
  void replicate(const TrainerSettings& settings, int stages);
  void share_out(const TrainerSettings& settings, int stages, c10::Device device);
  TensorParts parts() const;

  comm::Communicator& data_;
  Task& task_;
  std::unique_ptr<comm::Communicator> sharers_;  // ranks that have one copy together
  std::unique_ptr<comm::Communicator> copies_;   // that have the same of it
  std::unique_ptr<parallel::GradientEngine> engine_;
  parallel::DataParallel* replicated_ = nullptr;  // the engine, as what it is
  parallel::ShardedParallel* sharded_ = nullptr;
};

}  // namespace lockstep::train
