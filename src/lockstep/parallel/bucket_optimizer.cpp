#include "lockstep/parallel/bucket_optimizer.h"

#include <fnmatch.h>

#include <algorithm>
#include <utility>

#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"

namespace lockstep::parallel {
namespace {

void* element(const at::Tensor& tensor, std::int64_t number) {
  return static_cast<char*>(tensor.mutable_data_ptr()) + number * static_cast<std::int64_t>(tensor.element_size());
}

}  // namespace

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
      if (buckets_.sparse(number)) check_sparse(parameters[number], groups_[group_of[number]]);
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

void BucketOptimizer::check_sparse(const Parameter& parameter, const ParameterGroup& group) const {
  if (!optimizer_->sparse()) {
    fail(Fault::Usage, fmt::format("'{}' has sparse gradients, and this optimizer steps all weights or none: use sgd "
                                   "without momentum, adagrad, adam or adamw, or a dense embedding "
                                   "(model.sparse_embedding = false)",
                                   parameter.name));
  }
  if (group.weight_decay != 0) {
    fail(Fault::Usage,
         fmt::format("'{0}' has sparse gradients, so most of it would not decay: set optimizer.no_decay = "
                     "[\"{0}\"], or use a dense embedding (model.sparse_embedding = false)",
                     parameter.name));
  }
}

void BucketOptimizer::step(double lr, double gradient_scale) {
  ++steps_;
  for (const auto& [bucket, group, first, count] : stretches_) {
    const Bucket& run = buckets_.all()[bucket];
    const StepSettings settings{steps_, lr * groups_[group].lr_factor, groups_[group].weight_decay, gradient_scale};
    const auto step_run = [&, number = bucket](std::int64_t weight, std::int64_t gradient, std::int64_t length) {
      const auto from = [weight](const at::Tensor& tensor) { return element(tensor, weight); };
      ElementRun elements{run.weights.scalar_type(), from(run.weights), element(run.gradients, gradient), {}, length};
      std::transform(states_[number].begin(), states_[number].end(), elements.states.begin(), from);
      optimizer_->step(elements, settings);
    };
    if (!run.rows.defined()) {
      step_run(first, first, count);
      continue;
    }
    const std::int64_t rows = run.rows.numel(), width = rows == 0 ? 0 : run.gradients.numel() / rows;
    for (std::int64_t i = 0; i < rows; ++i) {
      step_run(first + run.rows.const_data_ptr<std::int64_t>()[i] * width, i * width, width);
    }
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
