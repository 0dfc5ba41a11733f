#include "lockstep/parallel/buckets.h"

#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/ScalarType.h>

namespace lockstep::parallel {
namespace {

constexpr std::int64_t kAlignment = 64;  // bytes: no two parameters share a cache line

}  // namespace

Buckets::Buckets(const Parameters& parameters, const std::vector<std::size_t>& order, BucketSizes sizes,
                 comm::Communicator& group, const std::set<std::string>& sparse)
    : places_(parameters.size()) {
  for (const auto& parameter : parameters) shapes_.push_back(parameter.tensor.sizes().vec());

  std::vector<std::int64_t> elements;
  std::vector<at::ScalarType> types;
  bool closed = true;  // what follows is in another bucket
  for (const std::size_t number : order) {
    const at::Tensor& tensor = parameters[number].tensor;
    const auto size = static_cast<std::int64_t>(tensor.element_size());
    const std::int64_t most = (buckets_.size() <= 1 ? sizes.first_bytes : sizes.bytes) / size;
    const bool alone = sparse.contains(parameters[number].name);
    if (closed || alone || types.back() != tensor.scalar_type() ||
        (elements.back() > 0 && elements.back() + tensor.numel() > most)) {
      buckets_.emplace_back();
      elements.push_back(0);
      types.push_back(tensor.scalar_type());
    }
    closed = alone;
    if (alone) buckets_.back().rows = at::empty({0}, at::kLong);
    buckets_.back().parameters.push_back(number);
    places_[number] = {buckets_.size() - 1, elements.back(), tensor.numel()};
    const std::int64_t step = kAlignment / size;
    elements.back() += (tensor.numel() + step - 1) / step * step;
  }
  for (std::size_t number = 0; number < buckets_.size(); ++number) {
    buckets_[number].weights = group.empty({elements[number]}, types[number]).zero_();
    const std::int64_t of_gradients = buckets_[number].rows.defined() ? 0 : elements[number];
    buckets_[number].gradients = group.empty({of_gradients}, types[number]).zero_();
    const at::Tensor& first = parameters[buckets_[number].parameters.front()].tensor;
    if (first.is_cpu()) continue;
    buckets_[number].device_weights = at::zeros({elements[number]}, first.options().requires_grad(false));
    buckets_[number].device_gradients = at::zeros({of_gradients}, first.options().requires_grad(false));
  }
}

Buckets::Buckets(const Parameters& parameters, const std::vector<Unit>& units, std::vector<Bucket> shards, int rank,
                 int ranks)
    : buckets_(std::move(shards)), places_(parameters.size()), shapes_(parameters.size()), shared_out_(ranks > 1) {
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    for (const auto& [number, first, window] : slices_of(units[unit], parameters, rank, ranks)) {
      buckets_[unit].parameters.push_back(number);
      places_[number] = {unit, first, window.count, window.first};
      shapes_[number] = {window.count};
    }
  }
}

at::Tensor Buckets::weight(std::size_t parameter) const {
  const Bucket& bucket = buckets_[places_[parameter].bucket];
  return view(bucket.device_weights.defined() ? bucket.device_weights : bucket.weights, parameter);
}

at::Tensor Buckets::gradient(std::size_t parameter) const {
  const Bucket& bucket = buckets_[places_[parameter].bucket];
  return view(bucket.device_gradients.defined() ? bucket.device_gradients : bucket.gradients, parameter);
}

void Buckets::gradients_to_host(std::size_t bucket) const {
  if (buckets_[bucket].device_gradients.defined()) buckets_[bucket].gradients.copy_(buckets_[bucket].device_gradients);
}

void Buckets::gradients_to_device(std::size_t bucket) const {
  if (buckets_[bucket].device_gradients.defined()) buckets_[bucket].device_gradients.copy_(buckets_[bucket].gradients);
}

void Buckets::weights_to_host() const {
  for (const auto& bucket : buckets_) {
    if (bucket.device_weights.defined()) bucket.weights.copy_(bucket.device_weights);
  }
}

void Buckets::weights_to_device() const {
  for (const auto& bucket : buckets_) {
    if (bucket.device_weights.defined()) bucket.device_weights.copy_(bucket.weights);
  }
}

void Buckets::set_rows(std::size_t parameter, const at::Tensor& rows, const at::Tensor& values) {
  Bucket& bucket = buckets_[places_[parameter].bucket];
  bucket.rows = rows;
  bucket.gradients = values.flatten();
}

at::Tensor Buckets::view(const at::Tensor& run, std::size_t parameter) const {
  const Place& place = places_[parameter];
  return run.narrow(0, place.first, place.count).view(shapes_[parameter]);
}

}  // namespace lockstep::parallel
