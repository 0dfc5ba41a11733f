#include "lockstep/parallel/bucket_optimizer.h"

#include <fnmatch.h>

#include <algorithm>
#include <utility>

#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"

namespace lockstep::parallel {

BucketOptimizer::BucketOptimizer(std::shared_ptr<const Optimizer> optimizer, const Parameters& parameters,
                                 const Buckets& buckets, std::vector<ParameterGroup> groups)
    : optimizer_(std::move(optimizer)),
      buckets_(buckets),
      groups_(std::move(groups)),
      state_names_(optimizer_->states()) {
  for (const auto& bucket : buckets_.all()) {
    auto& states = states_.emplace_back();
    for (std::size_t number = 0; number < state_names_.size(); ++number) {
      states.push_back(at::zeros_like(bucket.weights));
    }
  }
  for (const auto& parameter : parameters) parameter_names_.push_back(parameter.name);
  cut(parameters);
}

void BucketOptimizer::cut(const Parameters& parameters) {
  std::vector<std::size_t> group_of(parameters.size());
  for (std::size_t group = 1; group < groups_.size(); ++group) {
    for (const auto& pattern : groups_[group].patterns) {
      bool fits = false;
      for (std::size_t number = 0; number < parameters.size(); ++number) {
        if (fnmatch(pattern.c_str(), parameters[number].name.c_str(), 0) != 0) continue;
        group_of[number] = group;
        fits = true;
      }
      if (!fits) fail(Fault::Usage, fmt::format("no parameter of the model has a name like '{}'", pattern));
    }
  }
  for (std::size_t bucket = 0; bucket < buckets_.all().size(); ++bucket) {
    for (const std::size_t number : buckets_.all()[bucket].parameters) {
      const Place& place = buckets_.place(number);
      const bool same = optimizer_->elementwise() && !stretches_.empty() && stretches_.back().bucket == bucket &&
                        stretches_.back().group == group_of[number];
      // Over the zeros between two parameters an optimiser may well walk.
      if (same) {
        stretches_.back().count = place.first + place.count - stretches_.back().first;
      } else {
        stretches_.push_back({bucket, group_of[number], place.first, place.count});
      }
    }
  }
}

void BucketOptimizer::step(double lr, double gradient_scale) {
  ++steps_;
  for (const auto& [bucket, group, first, count] : stretches_) {
    const Bucket& run = buckets_.all()[bucket];
    const auto from = [first = first](const at::Tensor& tensor) {
      return static_cast<char*>(tensor.mutable_data_ptr()) + first * static_cast<std::int64_t>(tensor.element_size());
    };
    ElementRun elements{run.weights.scalar_type(), from(run.weights), from(run.gradients), {}, count};
    std::transform(states_[bucket].begin(), states_[bucket].end(), elements.states.begin(), from);
    optimizer_->step(elements, {steps_, lr * groups_[group].lr_factor, groups_[group].weight_decay, gradient_scale});
  }
}

Parameters BucketOptimizer::states() const {
  Parameters result;
  for (std::size_t parameter = 0; parameter < parameter_names_.size(); ++parameter) {
    const Place& place = buckets_.place(parameter);
    for (std::size_t number = 0; number < state_names_.size(); ++number) {
      const at::Tensor run = states_[place.bucket][number].narrow(0, place.first, place.count);
      result.push_back(
          {state_names_[number] + "/" + parameter_names_[parameter], run.view_as(buckets_.weight(parameter))});
    }
  }
  return result;
}

void BucketOptimizer::broadcast_states(comm::Communicator& group) {
  for (const auto& states : states_) {
    for (const auto& state : states) group.broadcast_(state, 0, {.name = "optimizer"}).wait();
  }
}

void BucketOptimizer::average_states(comm::Communicator& group, double share) {
  for (const auto& states : states_) {
    for (const auto& state : states) {
      group.all_reduce_(state.mul_(share), comm::ReduceOp::Sum, {.name = "optimizer"}).wait();
    }
  }
}

}  // namespace lockstep::parallel
