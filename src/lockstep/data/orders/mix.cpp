// Several groups of samples in given proportions: data sets by weight ("mix"), classes
// alike ("balanced"). Groups take turns evenly spread, and which of the samples of a
// group comes is a shuffle of its own that begins anew when all of them have been seen.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/random.h"
#include "lockstep/data/order.h"
#include "lockstep/data/permutation.h"

namespace lockstep::data {
namespace {

class Mix final : public Order {
 public:
  explicit Mix(const OrderOptions& options) : groups_(options.groups), seed_(options.seed) {
    if (groups_.empty()) fail(Fault::Usage, "nothing to mix: name groups of samples and their weights");
    std::int64_t all = 0;
    double largest = 0;
    for (const auto& group : groups_) {
      if (!(group.weight > 0) || !std::isfinite(group.weight)) {
        fail(Fault::Usage, fmt::format("the weight {} is not a positive number", group.weight));
      }
      if (group.size() == 0) fail(Fault::Usage, "a group without samples cannot be mixed in");
      all += group.size();
      largest = std::max(largest, group.weight);
    }
    // By the largest first: the sum of weights that are finite need not be.
    double sum = 0;
    for (const auto& group : groups_) sum += group.weight / largest;
    length_ = options.length > 0 ? options.length : all;
    weights_.push_back(0);
    for (const auto& group : groups_) weights_.push_back(weights_.back() + group.weight / largest / sum);
  }

  std::int64_t length() const noexcept override { return length_; }

  std::int64_t at(std::int64_t epoch, std::int64_t position) const noexcept override {
    // Over all epochs, so that a group that is larger than its share is seen to its end.
    const std::int64_t place = scattered(epoch * length_ + position);
    std::size_t low = 0, high = groups_.size();
    std::int64_t count = place;
    // Halve the groups: at each step so many of the first `count` places belong to the left half.
    while (high - low > 1) {
      const std::size_t middle = low + (high - low) / 2;
      const double share = (weights_[middle] - weights_[low]) / (weights_[high] - weights_[low]);
      const std::int64_t left = taken(count, share);
      if (taken(count + 1, share) > left) {
        high = middle;
        count = left;
      } else {
        low = middle;
        count -= left;
      }
    }
    return sample_of(low, count);
  }

 private:
  static constexpr std::int64_t kScatter = 4096;

  static std::int64_t taken(std::int64_t count, double share) noexcept {
    return static_cast<std::int64_t>(std::floor(static_cast<double>(count) * share + 0.5));
  }
  /// Turns are even over a few thousand places, not from one to the next: a network could learn the beat.
  std::int64_t scattered(std::int64_t place) const noexcept {
    const auto run = static_cast<std::uint64_t>(place / kScatter);
    const Permutation permutation(kScatter, mix(seed_, 1, run));
    return place / kScatter * kScatter +
           static_cast<std::int64_t>(permutation(static_cast<std::uint64_t>(place % kScatter)));
  }
  std::int64_t sample_of(std::size_t number, std::int64_t count) const noexcept {
    const SampleGroup& group = groups_[number];
    const std::int64_t size = group.size();
    const Permutation permutation(static_cast<std::uint64_t>(size),
                                  mix(seed_, 2, number, static_cast<std::uint64_t>(count / size)));
    const std::uint64_t place = permutation(static_cast<std::uint64_t>(count % size));
    return group.samples.empty() ? group.first + static_cast<std::int64_t>(place) : group.samples[place];
  }

  std::vector<SampleGroup> groups_;
  std::vector<double> weights_;  // before each group, as shares of 1
  std::uint64_t seed_;
  std::int64_t length_ = 0;
};

const OrderRegistry::Add mixed{"mix", "Several data sets, each by its weight",
                               [](const OrderOptions& options) { return std::make_unique<Mix>(options); }};
const OrderRegistry::Add balanced{"balanced", "Every class as often as any other", [](OrderOptions options) {
                                    for (auto& group : options.groups) group.weight = 1;
                                    return std::make_unique<Mix>(options);
                                  }};

}  // namespace
}  // namespace lockstep::data
