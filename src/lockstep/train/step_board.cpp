#include "lockstep/train/step_board.h"

#include <algorithm>

#include <ATen/TensorOperators.h>

namespace lockstep::train {

StepBoard::StepBoard(const Shards& shards, comm::Communicator& group)
    : shards_(shards),
      group_(group),
      on_device_(static_cast<std::size_t>(shards.own.count)),
      values_(group.empty({2 * shards.total + kWords * group.size()}, at::kDouble).zero_()) {}

void StepBoard::clear() { values_.zero_(); }

void StepBoard::add(int number, const Score& score) {
  double* row = values_.mutable_data_ptr<double>() + 2 * (shards_.own.first + number);
  row[1] += static_cast<double>(score.count);
  if (score.loss.is_cpu()) {
    row[0] += score.loss.item<double>();
    return;
  }
  at::Tensor& sum = on_device_[static_cast<std::size_t>(number)];
  const at::Tensor loss = score.loss.detach().to(at::kDouble);
  sum = sum.defined() ? sum + loss : loss;
}

comm::Work StepBoard::share() {
  for (std::size_t number = 0; number < on_device_.size(); ++number) {
    at::Tensor& sum = on_device_[number];
    if (!sum.defined()) continue;
    values_.mutable_data_ptr<double>()[2 * (shards_.own.first + static_cast<int>(number))] += sum.item<double>();
    sum = at::Tensor();
  }
  return group_.all_reduce_(values_, comm::ReduceOp::Sum, {.name = "losses", .lane = comm::Lane::Bulk});
}

double StepBoard::sum(int column) const {
  double result = 0;
  for (int shard = 0; shard < shards_.total; ++shard) result += values()[2 * shard + column];
  return result;
}

double StepBoard::own_count() const {
  double result = 0;
  for (int shard = shards_.own.first; shard < shards_.own.end(); ++shard) result += values()[2 * shard + 1];
  return result;
}

int StepBoard::count_of_flag(int number) const {
  int result = 0;
  for (int rank = 0; rank < group_.size(); ++rank) result += values()[place_of(rank) + number] > 0 ? 1 : 0;
  return result;
}

double StepBoard::imbalance() const {
  double slowest = 0, all = 0;
  for (int rank = 0; rank < group_.size(); ++rank) {
    const double seconds = values()[place_of(rank) + 2];
    slowest = std::max(slowest, seconds);
    all += seconds;
  }
  return all > 0 ? slowest * group_.size() / all : 1;
}

}  // namespace lockstep::train
