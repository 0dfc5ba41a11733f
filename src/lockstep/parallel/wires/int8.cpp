// Gradients as 8-bit integers times a scale per block: about a quarter of the bytes of
// float32. Every rank sums a slice: codes of the slices go to their owners, which add them up,
// encode the sum and send it to all. Both encodings remember what they could not say and add
// it to the next gradients.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <ATen/Dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/parallel/wire.h"

namespace lockstep::parallel {
namespace {

constexpr int kLargest = 127;
constexpr std::int8_t kNotFinite = -128;

/// To the nearest; for |value| < 2^22. Unlike nearbyint() the compiler does many at once.
template <class T>
T rounded(T value) {
  constexpr T kShift = std::is_same_v<T, float> ? T{0x1.8p23} : T{0x1.8p52};
  return (value + kShift) - kShift;
}

template <class T>
bool finite(T value) {
  return value - value == 0;
}

/// `values` become what encoding them has lost. False scales and codes never come of it: what is too small is lost
/// whole, what is too large in part.
template <class T>
float encode_block(T* values, std::int64_t count, std::int8_t* codes) {
  T largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, finite(values[i]) ? std::abs(values[i]) : T{0});
  }
  const auto scale =
      static_cast<float>(std::min(largest / kLargest, static_cast<T>(std::numeric_limits<float>::max())));
  const bool usable = scale >= std::numeric_limits<float>::min();
  const T step = usable ? static_cast<T>(scale) : T{0}, inverse = usable ? 1 / step : T{0};
  for (std::int64_t i = 0; i < count; ++i) {
    const bool good = finite(values[i]);
    const T value = good ? values[i] : T{0};
    const T code = rounded(std::clamp(value * inverse, T{-kLargest}, T{kLargest}));
    codes[i] = good ? static_cast<std::int8_t>(code) : kNotFinite;
    values[i] = value - code * step;
  }
  return usable ? scale : 0;
}

/// One rank's slice of a bucket in memory: scales, then codes, of whole blocks.
class Slice {
 public:
  Slice(const at::Tensor& messages, std::int64_t number, std::int64_t blocks, std::int64_t block)
      : scales_(static_cast<float*>(messages.mutable_data_ptr()) + number * bytes(blocks, block) / 4),
        codes_(reinterpret_cast<std::int8_t*>(scales_ + blocks)),
        block_(block) {}
  static std::int64_t bytes(std::int64_t blocks, std::int64_t block) { return blocks * (block + 4); }

  template <class T>
  void encode(T* values, std::int64_t count) {
    each_block(count, [&](std::int64_t number, std::int64_t first, std::int64_t size) {
      scales_[number] = encode_block(values + first, size, codes_ + first);
    });
  }
  /// Writes, or adds to, `values`.
  template <bool add, class T>
  void decode(T* values, std::int64_t count) const {
    each_block(count, [&](std::int64_t number, std::int64_t first, std::int64_t size) {
      const auto scale = static_cast<T>(scales_[number]);
      for (std::int64_t i = first; i < first + size; ++i) {
        const T value =
            codes_[i] == kNotFinite ? std::numeric_limits<T>::quiet_NaN() : scale * static_cast<T>(codes_[i]);
        values[i] = add ? values[i] + value : value;
      }
    });
  }

 private:
  template <class Work>
  void each_block(std::int64_t count, const Work& work) const {
    for (std::int64_t number = 0; number * block_ < count; ++number) {
      work(number, number * block_, std::min(block_, count - number * block_));
    }
  }

  float* scales_;
  std::int8_t* codes_;
  std::int64_t block_;
};

class Int8Wire final : public Wire {
 public:
  Int8Wire(const Config& recipe, const std::string& key) : block_(recipe.get(key + ".block", 256)) {
    if (block_ < 4 || block_ > (1 << 20) || block_ % 4 != 0) {
      fail(Fault::Usage,
           fmt::format("{}.block = {}: gradients that share a scale, a multiple of 4 up to 2^20", key, block_));
    }
  }

  void start(comm::Communicator& group, std::size_t number, const at::Tensor& gradients) override {
    if (number >= buckets_.size()) buckets_.resize(number + 1);
    BucketState& bucket = buckets_[number];
    if (!bucket.lost.defined()) prepare(group, bucket, gradients);
    bucket.gradients = gradients;
    bucket.lost.add_(gradients);
    AT_DISPATCH_FLOATING_TYPES(gradients.scalar_type(), "int8 wire", [&] {
      for (int rank = 0; rank < group.size(); ++rank) {
        const auto [first, count] = bucket.slice(rank, block_);
        Slice(bucket.sent, rank, bucket.blocks, block_).encode(bucket.lost.mutable_data_ptr<scalar_t>() + first, count);
      }
    });
    bucket.work = group.all_to_all(bucket.received, bucket.sent, {}, {}, kOnItsWay);
    under_way_.push_back(number);
  }

  void finish(comm::Communicator& group) override {
    for (const std::size_t number : under_way_) send_sum(group, buckets_[number]);
    for (const std::size_t number : under_way_) take_sum(group, buckets_[number]);
    under_way_.clear();
  }

  void forget() override {
    for (auto& bucket : buckets_) {
      if (!bucket.lost.defined()) continue;
      bucket.lost.zero_();
      bucket.lost_of_sum.zero_();
    }
  }

 private:
  struct BucketState {
    std::int64_t blocks = 0;            // of a slice
    at::Tensor gradients;               // as given
    at::Tensor lost;                    // of this rank's gradients
    at::Tensor lost_of_sum;             // of this rank's slice of the sum
    at::Tensor sent, received, result;  // messages by rank
    comm::Work work;

    struct Range {
      std::int64_t first, count;
    };
    /// The last slices may be short, or empty.
    Range slice(int rank, std::int64_t block) const {
      const std::int64_t first = std::min(rank * blocks * block, lost.numel());
      return {first, std::min(blocks * block, lost.numel() - first)};
    }
  };

  void prepare(comm::Communicator& group, BucketState& bucket, const at::Tensor& gradients) const {
    const std::int64_t ranks = group.size(), in_all = (gradients.numel() + block_ - 1) / block_;
    bucket.blocks = (in_all + ranks - 1) / ranks;
    bucket.lost = at::zeros({gradients.numel()}, gradients.options());
    bucket.lost_of_sum = at::zeros({bucket.slice(group.rank(), block_).count}, gradients.options());
    const std::int64_t bytes = Slice::bytes(bucket.blocks, block_);
    for (at::Tensor* messages : {&bucket.sent, &bucket.received, &bucket.result}) {
      *messages = group.empty({ranks * bytes}, at::kByte).zero_();
    }
  }

  /// As the owner of a slice.
  void send_sum(comm::Communicator& group, BucketState& bucket) const {
    bucket.work.wait();
    const std::int64_t count = bucket.lost_of_sum.numel();
    AT_DISPATCH_FLOATING_TYPES(bucket.gradients.scalar_type(), "int8 wire", [&] {
      auto* sum = bucket.lost_of_sum.mutable_data_ptr<scalar_t>();
      for (int rank = 0; rank < group.size(); ++rank) {
        Slice(bucket.received, rank, bucket.blocks, block_).decode<true>(sum, count);
      }
      Slice(bucket.sent, group.rank(), bucket.blocks, block_).encode(sum, count);
    });
    const std::int64_t bytes = Slice::bytes(bucket.blocks, block_);
    bucket.work =
        group.all_gather(bucket.result, bucket.sent.narrow(0, group.rank() * bytes, bytes), {}, {.name = "gradients"});
  }

  void take_sum(comm::Communicator& group, BucketState& bucket) const {
    bucket.work.wait();
    AT_DISPATCH_FLOATING_TYPES(bucket.gradients.scalar_type(), "int8 wire", [&] {
      for (int rank = 0; rank < group.size(); ++rank) {
        const auto [first, count] = bucket.slice(rank, block_);
        Slice(bucket.result, rank, bucket.blocks, block_)
            .decode<false>(bucket.gradients.mutable_data_ptr<scalar_t>() + first, count);
      }
    });
  }

  std::int64_t block_;
  std::vector<BucketState> buckets_;
  std::vector<std::size_t> under_way_;
};

const WireRegistry::Add registered{
    "int8", "Gradients as 8-bit integers with error feedback: block, which shares a scale",
    [](const Config& recipe, const std::string& key) { return std::make_unique<Int8Wire>(recipe, key); }};

}  // namespace
}  // namespace lockstep::parallel
