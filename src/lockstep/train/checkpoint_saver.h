// lockstep/train/checkpoint_saver.h
//
// Saves while the run goes on: every rank writes its share of the tensors from a thread of its own;
// once all are done, which ranks tell each other beside the losses of a step, rank 0 completes the
// checkpoint. As many tensors as the bounded staging memory takes are copied, and written while the run goes on;
// for those that do not fit, or do not lie in memory (parallel.offload), it waits until they are written. A disk
// that is full costs this checkpoint, not the run.
#pragma once

#include <cstdint>
#include <future>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lockstep/comm/communicator.h"
#include "lockstep/train/best_steps.h"
#include "lockstep/train/checkpoint.h"

namespace lockstep::train {

struct CheckpointSettings {
  std::string folder = {};       // none: no checkpoints; of a run that begins, one without any
  std::int64_t every_steps = 0;  // 0: after every epoch
  std::int64_t keep_last = 2;
  // By the figure `best_by` of the validation, beside the last ones; saved even if no checkpoint is due.
  std::int64_t keep_best = 1;
  std::string best_by = "loss";
  std::int64_t staging_bytes = std::int64_t{64} << 20;  // on each rank, of tensors that are copied
  bool resume = false;                                  // go on from the newest
};

class CheckpointSaver {
 public:
  /// Ranks of `replicas`, which is a part of `group`, have the same tensors.
  CheckpointSaver(const CheckpointSettings& settings, comm::Communicator& group, const comm::Communicator& replicas);
  /// Waits for what is being written, and leaves it unfinished.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  bool wanted() const noexcept { return !settings_.folder.empty(); }
  /// Because it is due, or is among the best so far.
  bool wanted_after(std::int64_t step, bool end_of_epoch) const;
  /// Begins to save; what was begun before is finished first. All replicas pass the same `tensors`.
  void begin(const Checkpoint& now);
  /// Most that was copied so far.
  std::int64_t staged_bytes() const noexcept { return staged_bytes_; }

  /// Whether finish() would not wait for this rank.
  bool written() const;
  /// Completes the checkpoint, or drops it if the disk of any rank is full. False: dropped. A collective.
  bool finish();
  /// Whether a save is under way, the same on all ranks.
  bool under_way() const noexcept { return writing_.valid(); }

  /// Which steps were best; all ranks know the same.
  BestSteps& best() noexcept { return best_; }
  /// Validations of before a restart, as far as their steps were saved. A collective.
  void recall(const std::vector<Evaluation>& evaluations);

 private:
  /// On rank 0.
  bool complete(const std::vector<std::string>& parts);
  void prune();

  CheckpointSettings settings_;
  comm::Communicator& group_;
  const comm::Communicator& replicas_;
  CheckpointFolder folder_;
  std::int64_t step_ = 0;
  std::int64_t staged_bytes_ = 0;
  nlohmann::json facts_;
  std::future<std::string> writing_;  // the manifest's entry, or "" if it failed
  BestSteps best_;
};

}  // namespace lockstep::train
