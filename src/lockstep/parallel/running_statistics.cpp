#include "lockstep/parallel/running_statistics.h"

#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>

#include "lockstep/parallel/broadcast.h"

namespace lockstep::parallel {

RunningStatistics::RunningStatistics(Parameters buffers, comm::Communicator& group)
    : buffers_(std::move(buffers)), group_(group) {
  take_from_first_rank();
}

void RunningStatistics::begin_shard(int number) {
  if (number == 0) {
    remember();
  } else {
    go_back();
  }
}

void RunningStatistics::remember() {
  const at::NoGradGuard no_gradients;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (before_.size() <= i) before_.emplace_back(buffers_[i].tensor.clone());
    before_[i].copy_(buffers_[i].tensor);
  }
}

void RunningStatistics::go_back() {
  const at::NoGradGuard no_gradients;
  for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i].tensor.copy_(before_[i]);
}

void RunningStatistics::end_shard(int number, int count, bool had_samples) {
  if (buffers_.empty()) return;
  const at::NoGradGuard no_gradients;
  sum_ = gathered();
  if (!had_samples) sum_.zero_();
  tree_.fold_(sum_, static_cast<std::uint32_t>(number));
  if (number + 1 < count) tree_.keep(sum_, static_cast<std::uint32_t>(number));
}

void RunningStatistics::finish(int shards) {
  if (buffers_.empty()) return;
  const at::NoGradGuard no_gradients;
  group_.all_reduce_(sum_, comm::ReduceOp::Sum, {.name = "running statistics"}).wait();
  spread(sum_.div(shards));
}

void RunningStatistics::take_from_first_rank() { broadcast_(buffers_, group_, 0, "running statistics"); }

at::Tensor RunningStatistics::gathered() const {
  std::vector<at::Tensor> flat;
  for (const auto& buffer : buffers_) flat.push_back(buffer.tensor.flatten().to(at::kCPU, at::kDouble));
  return at::cat(flat);
}

void RunningStatistics::spread(const at::Tensor& values) {
  std::int64_t first = 0;
  for (const auto& buffer : buffers_) {
    const std::int64_t count = buffer.tensor.numel();
    buffer.tensor.copy_(values.narrow(0, first, count).view_as(buffer.tensor));
    first += count;
  }
}

}  // namespace lockstep::parallel
