// lockstep/train/step_board.h
//
// What all ranks tell each other in every step, in one small collective beside those of
// the gradients: losses and counts of the virtual shards, whether a rank was asked to stop,
// whether it has written its part of a checkpoint, how long it has computed.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/communicator.h"
#include "lockstep/train/shards.h"
#include "lockstep/train/task.h"

namespace lockstep::train {

class StepBoard {
 public:
  StepBoard(const Shards& shards, comm::Communicator& group);

  /// Before the next step.
  void clear();
  /// Of shard `number` of this rank. A loss on a GPU is read only when the board is shared: reading waits for the GPU.
  void add(int number, const Score& score);
  void ask_to_stop() { words()[0] = 1; }
  void say_written() { words()[1] = 1; }
  /// Of the step before: this one's is not known when the board is shared.
  void set_computed_s(double seconds) { words()[2] = seconds; }
  /// Zeros of the others make of the sum a gathering, whose order of addition does not matter. Done before any
  /// bulk collective that is issued later.
  comm::Work share();

  // Once shared, the same on all ranks.
  double loss() const { return sum(0); }
  double count() const { return sum(1); }
  /// Of the shards of this rank.
  double own_count() const;
  bool stop() const { return count_of_flag(0) > 0; }
  bool all_written() const { return count_of_flag(1) == group_.size(); }
  /// How much longer than the mean of all ranks the slowest has computed: 1 when they are equal.
  double imbalance() const;

 private:
  const double* values() const { return values_.const_data_ptr<double>(); }
  /// Of a rank: two flags and a time.
  static constexpr int kWords = 3;
  double* words() { return values_.mutable_data_ptr<double>() + place_of(group_.rank()); }
  int place_of(int rank) const { return 2 * shards_.total + kWords * rank; }
  double sum(int column) const;
  int count_of_flag(int number) const;

  Shards shards_;
  comm::Communicator& group_;
  std::vector<at::Tensor> on_device_;  // by shard of this rank: losses that are not read yet
  at::Tensor values_;                  // loss and count of every shard, then the words of every rank
};

}  // namespace lockstep::train
