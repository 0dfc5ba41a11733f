#include "lockstep/parallel/bucket_optimizer.h"

#include <algorithm>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/parallel/lasting_memory.h"
#include "lockstep/parallel/name_pattern.h"

namespace lockstep::parallel {
namespace {

std::byte* element(const at::Tensor& tensor, std::int64_t number) {
  return static_cast<std::byte*>(tensor.mutable_data_ptr()) + number * static_cast<std::int64_t>(tensor.element_size());
}

std::int64_t elements_of(const std::vector<comm::Slice>& slices) {
  std::int64_t sum = 0;
  for (const auto& slice : slices) sum += slice.count();
  return sum;
}

/// Calls `work` with each slice of a bucket and the same elements of a state.
template <class Work>
void for_each_slice(const std::vector<comm::Slice>& slices, const at::Tensor& whole, const at::Tensor& state,
                    const Work& work) {
  std::int64_t at = 0;
  for (const auto& slice : slices) {
    work(whole.narrow(0, slice.begin, slice.count()), state.narrow(0, at, slice.count()));
    at += slice.count();
  }
}

}  // namespace

BucketOptimizer::BucketOptimizer(std::shared_ptr<const Optimizer> optimizer, const Parameters& parameters,
                                 const Buckets& buckets, const std::vector<ParameterGroup>& groups,
                                 comm::Communicator& ranks, Of elements, Offload* offload)
    : optimizer_(std::move(optimizer)),
      buckets_(buckets),
      state_names_(optimizer_->states()),
      ranks_(ranks),
      offload_(offload),
      sharded_(elements == Of::OwnRank && ranks.size() > 1) {
  for (const auto& bucket : buckets_.all()) {
    const std::int64_t count = bucket.weights.numel();
    owned_.push_back(elements == Of::OwnRank ? ranks.owned(count, bucket.weights.scalar_type())
                                             : std::vector<comm::Slice>{{0, count}});
    auto& states = states_.emplace_back();
    const at::ScalarType type = bucket.weights.scalar_type();
    const std::int64_t own = elements_of(owned_.back());
    for (std::size_t number = 0; number < state_names_.size(); ++number) {
      states.push_back(offload == nullptr ? lasting_zeros(own, type)
                                          : at::zeros({own}, at::TensorOptions(type).device(at::kMeta)));
    }
  }
  for (const auto& parameter : parameters) parameter_names_.push_back(parameter.name);
  cut(parameters, paces_of(parameters, groups));
}

std::vector<BucketOptimizer::Pace> BucketOptimizer::paces_of(const Parameters& parameters,
                                                             const std::vector<ParameterGroup>& groups) {
  std::vector<Pace> paces(parameters.size());
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const auto& [patterns, lr_factor, weight_decay] = groups[group];
    for (std::size_t number = 0; number < parameters.size(); ++number) {
      if (group > 0 && !fits_any(patterns, parameters[number].name)) continue;
      paces[number].lr_factor = lr_factor.value_or(paces[number].lr_factor);
      paces[number].weight_decay = weight_decay.value_or(paces[number].weight_decay);
    }
    for (const auto& pattern : patterns) {
      if (std::none_of(parameters.begin(), parameters.end(),
                       [&](const auto& parameter) { return fits(pattern, parameter.name); })) {
        std::vector<std::string> names;
        for (const auto& parameter : parameters) names.push_back(parameter.name);
        fail(Fault::Usage, fmt::format("no parameter that is trained has a name like '{}', of optimizer.no_decay or "
                                       "optimizer.groups; there are {}",
                                       pattern, list_some(names, 10)));
      }
    }
  }
  return paces;
}

void BucketOptimizer::cut(const Parameters& parameters, const std::vector<Pace>& paces) {
  for (const auto& bucket : buckets_.all()) {
    auto& stretches = stretches_.emplace_back();
    for (const std::size_t number : bucket.parameters) {
      const Place& place = buckets_.place(number);
      if (place.count == 0) continue;  // another rank has all of it
      if (buckets_.sparse(number)) check_sparse(parameters[number], paces[number]);
      const bool same = optimizer_->elementwise() && !stretches.empty() && stretches.back().pace == paces[number];
      // Over the zeros between two parameters an optimiser may well walk.
      if (same) {
        stretches.back().count = place.first + place.count - stretches.back().first;
      } else {
        stretches.push_back({paces[number], place.first, place.count});
      }
    }
  }
}

void BucketOptimizer::check_sparse(const Parameter& parameter, const Pace& pace) const {
  if (!optimizer_->sparse()) {
    fail(Fault::Usage, fmt::format("'{}' has sparse gradients, and this optimizer steps all weights or none: use sgd "
                                   "without momentum, adagrad, adam or adamw, or a dense embedding "
                                   "(model.sparse_embedding = false)",
                                   parameter.name));
  }
  if (pace.weight_decay != 0) {
    fail(Fault::Usage,
         fmt::format("'{0}' has sparse gradients, so most of it would not decay: set optimizer.no_decay = "
                     "[\"{0}\"], or use a dense embedding (model.sparse_embedding = false)",
                     parameter.name));
  }
}

void BucketOptimizer::step(double lr, double gradient_scale) {
  begin_step(lr);
  if (offload_ != nullptr) {
    step_offloaded(gradient_scale);
    return;
  }
  for (std::size_t bucket = 0; bucket < owned_.size(); ++bucket) {
    const at::Tensor &gradients = buckets_.all()[bucket].gradients, &rows = buckets_.all()[bucket].rows;
    if (rows.defined()) {
      const std::int64_t count = rows.numel(), width = count == 0 ? 0 : gradients.numel() / count;
      for (std::int64_t i = 0; i < count; ++i) {
        step_part(bucket, rows.const_data_ptr<std::int64_t>()[i] * width, width, element(gradients, i * width),
                  gradient_scale);
      }
      continue;
    }
    for (const auto& slice : owned_[bucket]) {
      step_part(bucket, slice.begin, slice.count(), element(gradients, slice.begin), gradient_scale);
    }
  }
  buckets_.weights_to_device();
}

void BucketOptimizer::begin_step(double lr) noexcept {
  ++steps_;
  lr_ = lr;
}

void BucketOptimizer::step_part(std::size_t bucket, std::int64_t first, std::int64_t count, const void* gradients,
                                double gradient_scale) {
  // Where the state of the bucket's element 0 would lie, of the slice that holds this part.
  std::int64_t state_origin = 0;
  for (const auto& slice : owned_[bucket]) {
    if (first < slice.end) {
      state_origin -= slice.begin;
      break;
    }
    state_origin += slice.count();
  }
  Elements elements{
      first, count, element(buckets_.all()[bucket].weights, first), static_cast<const std::byte*>(gradients), {}};
  std::transform(states_[bucket].begin(), states_[bucket].end(), elements.states.begin(),
                 [&](const at::Tensor& state) { return element(state, state_origin + first); });
  step_elements(bucket, elements, gradient_scale);
}

void BucketOptimizer::step_offloaded(double gradient_scale) {
  offload_->update([&](const Offload::Piece& piece) {
    const Bucket& bucket = buckets_.all()[piece.unit];
    Elements elements{piece.first,
                      piece.count,
                      offload_->has_weights() ? piece.parts[Offload::kWeights] : element(bucket.weights, piece.first),
                      element(bucket.gradients, piece.first),
                      {}};
    std::copy(piece.parts.begin() + offload_->state(0), piece.parts.end(), elements.states.begin());
    step_elements(piece.unit, elements, gradient_scale);
  });
}

void BucketOptimizer::step_elements(std::size_t bucket, const Elements& elements, double gradient_scale) const {
  const at::ScalarType type = buckets_.all()[bucket].weights.scalar_type();
  const auto size = static_cast<std::int64_t>(c10::elementSize(type));
  for (const auto& stretch : stretches_[bucket]) {
    const std::int64_t from = std::max(elements.first, stretch.first);
    const std::int64_t to = std::min(elements.first + elements.count, stretch.first + stretch.count);
    if (from >= to) continue;
    const std::int64_t skipped = (from - elements.first) * size;
    ElementRun run{type, elements.weights + skipped, elements.gradients + skipped, {}, to - from};
    for (std::size_t number = 0; number < state_names_.size(); ++number) {
      run.states[number] = elements.states[number] + skipped;
    }
    optimizer_->step(run, {steps_, lr_ * stretch.pace.lr_factor, stretch.pace.weight_decay, gradient_scale});
  }
}

void BucketOptimizer::add_views(Parameters& views, std::size_t bucket, std::size_t number,
                                const at::Tensor& whole) const {
  for (const std::size_t parameter : buckets_.all()[bucket].parameters) {
    const Place& place = buckets_.place(parameter);
    if (place.count == 0) continue;
    views.push_back({state_names_[number] + "/" + parameter_names_[parameter],
                     whole.narrow(0, place.first, place.count).view(buckets_.weight(parameter).sizes())});
  }
}

std::int64_t BucketOptimizer::state_bytes() const noexcept {
  std::int64_t bytes = 0;
  for (const auto& states : states_) {
    for (const auto& state : states) bytes += state.is_meta() ? 0 : static_cast<std::int64_t>(state.nbytes());
  }
  return bytes;
}

Parameters BucketOptimizer::states() const {
  Parameters views;
  for (std::size_t bucket = 0; bucket < states_.size(); ++bucket) {
    for (std::size_t number = 0; number < state_names_.size(); ++number) {
      sharded_ ? add_own(views, bucket, number) : add_views(views, bucket, number, states_[bucket][number]);
    }
  }
  return views;
}

void BucketOptimizer::add_own(Parameters& views, std::size_t bucket, std::size_t number) const {
  for (const std::size_t parameter : buckets_.all()[bucket].parameters) {
    const OwnRun run = own_run(parameter);
    if (run.count == 0) continue;
    views.push_back({state_names_[number] + "/" + parameter_names_[parameter],
                     states_[bucket][number].narrow(0, run.of_state, run.count)});
  }
}

BucketOptimizer::OwnRun BucketOptimizer::own_run(std::size_t parameter) const {
  const Place& place = buckets_.place(parameter);
  OwnRun run;
  std::int64_t at = 0;  // where the slice begins in the state
  for (const auto& slice : owned_[place.bucket]) {
    const std::int64_t begin = std::max(place.first, slice.begin), end = std::min(place.first + place.count, slice.end);
    if (begin < end) {
      if (run.count == 0) run.of_state = at + begin - slice.begin;
      run.windows.push_back({begin - place.first, end - begin});
      run.count += end - begin;
    }
    at += slice.count();
  }
  return run;
}

std::map<std::string, ParameterPart> BucketOptimizer::own_parts() const {
  std::map<std::string, ParameterPart> parts;
  for (std::size_t parameter = 0; sharded_ && parameter < parameter_names_.size(); ++parameter) {
    const ParameterPart whole(buckets_.weight(parameter).sizes().vec());
    parts.emplace(parameter_names_[parameter], whole.within_all(own_run(parameter).windows));
  }
  return parts;
}

at::Tensor BucketOptimizer::state(const std::string& name) const {
  for (std::size_t number = 0; number < state_names_.size(); ++number) {
    for (std::size_t parameter = 0; parameter < parameter_names_.size(); ++parameter) {
      if (name != state_names_[number] + "/" + parameter_names_[parameter]) continue;
      const auto& [bucket, first, count, of_parameter] = buckets_.place(parameter);
      return offload_->read(bucket, offload_->state(number), first, count);
    }
  }
  fail(Fault::Internal, fmt::format("there is no state '{}'", name));
}

void BucketOptimizer::load_offloaded(const std::function<void(const Parameters&)>& load) {
  for (std::size_t parameter = 0; parameter < parameter_names_.size(); ++parameter) {
    const auto& [bucket, first, count, of_parameter] = buckets_.place(parameter);
    for (std::size_t number = 0; number < state_names_.size() && count > 0; ++number) {
      const at::Tensor values = at::empty({count}, buckets_.all()[bucket].weights.scalar_type());
      load({{state_names_[number] + "/" + parameter_names_[parameter], values}});
      offload_->write(bucket, offload_->state(number), first, values);
    }
  }
}

void BucketOptimizer::load_states(const std::function<void(const Parameters&)>& load) {
  if (offload_ != nullptr) {
    load_offloaded(load);
    return;
  }
  for (std::size_t bucket = 0; bucket < states_.size(); ++bucket) {
    for (std::size_t number = 0; number < state_names_.size(); ++number) {
      Parameters views;
      if (buckets_.shared_out()) {
        add_views(views, bucket, number, states_[bucket][number]);
        load(views);
        continue;
      }
      const at::Tensor whole = at::zeros_like(buckets_.all()[bucket].weights);
      add_views(views, bucket, number, whole);
      if (ranks_.rank() == 0) load(views);
      ranks_.broadcast_(whole, 0, {.name = "optimizer"}).wait();
      for_each_slice(owned_[bucket], whole, states_[bucket][number],
                     [](const at::Tensor& part, at::Tensor state) { state.copy_(part); });
    }
  }
}

void BucketOptimizer::average_states(double share) {
  for (const auto& states : states_) {
    for (const auto& state : states) {
      ranks_.all_reduce_(state.mul_(share), comm::ReduceOp::Sum, {.name = "optimizer"}).wait();
    }
  }
}

}  // namespace lockstep::parallel
