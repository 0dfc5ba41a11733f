// The largest gradients of every rank, as places and values; the rest is remembered and
// added to the next ones.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <ATen/Dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/parallel/wire.h"

namespace lockstep::parallel {
namespace {

class TopkWire final : public Wire {
 public:
  TopkWire(const Config& recipe, const std::string& key) : ratio_(recipe.get(key + ".ratio", 0.01)) {
    if (!(ratio_ > 0 && ratio_ <= 1)) {
      fail(Fault::Usage,
           fmt::format("{}.ratio = {}: the share of gradients that travel, above 0 and up to 1", key, ratio_));
    }
  }

  void start(comm::Communicator& group, std::size_t number, const at::Tensor& gradients) override {
    if (number >= buckets_.size()) buckets_.resize(number + 1);
    BucketState& bucket = buckets_[number];
    if (!bucket.kept.defined()) prepare(group, bucket, gradients);
    bucket.gradients = gradients;
    bucket.kept.add_(gradients);
    // What is not a number counts as the largest.
    const at::Tensor chosen = std::get<1>(at::topk(bucket.kept.abs(), bucket.own_places.numel(), 0, true, false));
    bucket.own_places.copy_(chosen);
    bucket.own_values.copy_(bucket.kept.index_select(0, chosen));
    bucket.kept.index_fill_(0, chosen, 0);
    bucket.kept.masked_fill_(at::isfinite(bucket.kept).logical_not_(), 0);
    bucket.work = group.all_gather(bucket.places, bucket.own_places, {}, kOnItsWay);
    bucket.work.add(group.all_gather(bucket.values, bucket.own_values, {}, kOnItsWay));
    under_way_.push_back(number);
  }

  void finish(comm::Communicator&) override {
    for (const std::size_t number : under_way_) {
      BucketState& bucket = buckets_[number];
      bucket.work.wait();
      bucket.gradients.zero_();
      // One after another in the order of ranks, so that all get the same bits.
      AT_DISPATCH_FLOATING_TYPES(bucket.gradients.scalar_type(), "topk wire", [&] {
        auto* sum = bucket.gradients.mutable_data_ptr<scalar_t>();
        const auto* places = bucket.places.const_data_ptr<std::int32_t>();
        const auto* values = bucket.values.const_data_ptr<scalar_t>();
        for (std::int64_t i = 0; i < bucket.places.numel(); ++i) sum[places[i]] += values[i];
      });
    }
    under_way_.clear();
  }

  void forget() override {
    for (auto& bucket : buckets_) {
      if (bucket.kept.defined()) bucket.kept.zero_();
    }
  }

 private:
  struct BucketState {
    at::Tensor gradients;                               // as given
    at::Tensor kept;                                    // not sent yet
    at::Tensor own_places, own_values, places, values;  // of this rank, of all
    comm::Work work;
  };

  void prepare(comm::Communicator& group, BucketState& bucket, const at::Tensor& gradients) const {
    const std::int64_t count = gradients.numel();
    if (count > std::numeric_limits<std::int32_t>::max()) {
      fail(Fault::Usage, fmt::format("a parameter of {} elements is too large for the wire topk; use int8", count));
    }
    const auto sent = std::clamp<std::int64_t>(std::llround(ratio_ * static_cast<double>(count)), 1, count);
    bucket.kept = at::zeros({count}, gradients.options());
    bucket.own_places = group.empty({sent}, at::kInt);
    bucket.own_values = group.empty({sent}, gradients.scalar_type());
    bucket.places = group.empty({sent * group.size()}, at::kInt);
    bucket.values = group.empty({sent * group.size()}, gradients.scalar_type());
  }

  double ratio_;
  std::vector<BucketState> buckets_;
  std::vector<std::size_t> under_way_;
};

const WireRegistry::Add registered{
    "topk", "The largest gradients alone, with error feedback: ratio of those that travel",
    [](const Config& recipe, const std::string& key) { return std::make_unique<TopkWire>(recipe, key); }};

}  // namespace
}  // namespace lockstep::parallel
