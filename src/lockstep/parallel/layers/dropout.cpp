#include "lockstep/parallel/layers/dropout.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "lockstep/comm/gather_values.h"
#include "lockstep/core/error.h"
#include "lockstep/core/hash.h"
#include "lockstep/core/random.h"
#include "lockstep/parallel/random_key.h"

namespace lockstep::parallel {
namespace {

/// Zeros, and what makes up for them, each element by bits of its own number.
template <class Number>
class Mask {
 public:
  Mask(std::uint64_t stream, std::uint64_t seed, double probability)
      : stream_(stream),
        key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
        below_(static_cast<std::uint64_t>(probability * 0x1p32)),
        kept_(static_cast<Number>(1 / (1 - probability))) {}

  /// `count` elements from number `first` on.
  void fill(Number* values, std::int64_t first, std::int64_t count) const {
    const std::int64_t end = first + count;
    for (std::int64_t block = first / 4; 4 * block < end; ++block) {
      const auto bits = philox4x32({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                                    static_cast<std::uint32_t>(stream_), static_cast<std::uint32_t>(stream_ >> 32)},
                                   key_);
      for (std::int64_t i = std::max(first, 4 * block); i < std::min(end, 4 * block + 4); ++i) {
        values[i - first] = bits[static_cast<std::size_t>(i - 4 * block)] < below_ ? Number{0} : kept_;
      }
    }
  }

 private:
  std::uint64_t stream_;
  PhiloxKey key_;
  std::uint64_t below_;
  Number kept_;
};

/// The last dim, unless that is the samples'.
std::int64_t columns_of(const at::Tensor& values) { return values.dim() > 1 ? values.size(-1) : 1; }

/// Where this rank's elements lie among those of all ranks, which are a matrix: some rows of each sample, one sample
/// behind the other.
struct Place {
  std::int64_t first_sample;
  std::int64_t first_row, own_rows, all_rows;  // of a sample
  std::int64_t first_column, all_columns;

  std::int64_t row(std::int64_t own) const {
    return (first_sample + own / own_rows) * all_rows + first_row + own % own_rows;
  }
};

/// The same however many threads fill it.
template <class Number>
void fill_rows(const Mask<Number>& mask, at::Tensor& values, std::int64_t columns, const Place& place) {
  const std::int64_t rows = values.numel() / columns;
  const std::int64_t grain = std::max<std::int64_t>(1, (1 << 16) / columns);
  auto* elements = values.mutable_data_ptr<Number>();
  at::parallel_for(0, rows, grain, [&](std::int64_t begin, std::int64_t end) {
    if (columns == place.all_columns && place.own_rows == place.all_rows) {
      mask.fill(elements + begin * columns, place.row(begin) * columns, (end - begin) * columns);
      return;
    }
    for (std::int64_t row = begin; row < end; ++row) {
      mask.fill(elements + row * columns, place.row(row) * place.all_columns + place.first_column, columns);
    }
  });
}

// Not by named_modules(), which a constructor could not call.
void name_below(torch::nn::Module& module, const std::string& name) {
  if (auto* dropout = module.as<DropoutImpl>()) dropout->key = hash64(name);
  for (const auto& child : module.named_children()) name_below(*child.value(), name + "." + child.key());
}

}  // namespace

DropoutImpl::DropoutImpl(double probability) : probability_(probability) {
  if (!(probability >= 0 && probability < 1)) {
    fail(Fault::Usage, fmt::format("dropout of {}: it is a share from 0 to below 1", probability));
  }
}

void DropoutImpl::expect_same_values(const std::string& name, comm::Communicator& group) {
  name_ = name;
  alike_ = &group;
}

void DropoutImpl::check_same_values(const at::Tensor& input) {
  constexpr std::int64_t kLooks = 16;
  const at::Tensor flat = input.detach().flatten();
  const at::Tensor some = flat.slice(0, 0, flat.numel(), std::max<std::int64_t>(1, flat.numel() / kLooks))
                              .to(at::kCPU, at::kDouble)
                              .contiguous();
  const std::span<const double> own(some.const_data_ptr<double>(), static_cast<std::size_t>(some.numel()));
  const std::size_t ranks = static_cast<std::size_t>(alike_->size());
  const auto all = comm::gather_values(*std::exchange(alike_, nullptr), own);
  // Hosts need not round alike; other columns have other values, so that some differ by about as much as they are.
  double largest = 0;
  bool same = all.size() == ranks * own.size(), overflown = false;  // which the loss scaler sees to
  for (const double value : all) {
    overflown |= !std::isfinite(value);
    largest = std::max(largest, std::abs(value));
  }
  constexpr double kTolerance = 0.05;
  for (std::size_t place = 0; same && !overflown && place < all.size(); ++place)
    same = std::abs(all[place] - all[place % own.size()]) <= kTolerance * largest;
  if (!same) {
    fail(Fault::Usage, fmt::format("ranks of the tensor axis bring different values to the dropout '{0}', which would "
                                   "draw one mask for all of them: it follows a layer that is split, so say \"{0}\" = "
                                   "\"column\" in parallel.tensor_plan, too (or \"channel\", where the second dim is "
                                   "split: channels of images, heads; \"time\" where others have \"+time\")",
                                   name_));
  }
}

std::pair<std::int64_t, std::int64_t> DropoutImpl::columns(std::int64_t own) {
  if (ranks() == nullptr || over_time_) return {0, own};
  // How many there are follows from the weights in front, so it never changes: all ranks find it out together, once,
  // in the first forward that drops, and no recomputation asks again. Were it to change, it could do so on some
  // ranks alone (5 columns are 3 and 2, 4 are 2 and 2), of which the others would wait for the rest.
  if (own_columns_ >= 0 && own != own_columns_) {
    fail(Fault::Usage, fmt::format("a dropout that is split by {0} has had {1} {0}s, and now gets {2}: give each "
                                   "layer a Dropout of its own",
                                   over_channels_ ? "channel" : "column", own_columns_, own));
  }
  if (own_columns_ < 0) {
    const auto all = comm::gather_values(*ranks(), std::span<const std::int64_t>(&own, 1));
    columns_before_ = all_columns_ = 0;
    for (int rank = 0; rank < ranks()->size(); ++rank) {
      if (rank == ranks()->rank()) columns_before_ = all_columns_;
      all_columns_ += all[static_cast<std::size_t>(rank)];
    }
    own_columns_ = own;
  }
  return {columns_before_, all_columns_};
}

at::Tensor DropoutImpl::forward(const at::Tensor& input) {
  if (!is_training() || probability_ == 0 || input.numel() == 0) return input;
  if (alike_ != nullptr) check_same_values(input);
  const auto type = input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  // From pinned memory a GPU fetches it while this thread goes on.
  at::Tensor mask = at::empty(input.sizes(), at::TensorOptions(type).pinned_memory(input.is_cuda()));
  const RandomKey& now = random_key();
  const std::uint64_t stream = mix(key, static_cast<std::uint64_t>(now.step));
  // Elements of a channel lie together: all of an image is one row.
  const std::int64_t width = over_channels_ ? input.numel() / input.size(0) / input.size(1) : 1;
  const std::int64_t own_columns = over_channels_ ? width * input.size(1) : columns_of(input);
  const auto [columns_before, all_columns] = columns(own_columns / width);
  const std::int64_t rows = input.numel() / own_columns / input.size(0);  // of a sample
  const bool slices = over_time_ && ranks() != nullptr;
  const Place place{.first_sample = now.sample,
                    .first_row = slices ? ranks()->rank() * rows : 0,
                    .own_rows = rows,
                    .all_rows = slices ? ranks()->size() * rows : rows,
                    .first_column = width * columns_before,
                    .all_columns = width * all_columns};
  const auto fill = [&]<class Number>(Number) {
    fill_rows(Mask<Number>(stream, now.seed, probability_), mask, own_columns, place);
  };
  type == at::kDouble ? fill(double{}) : fill(float{});
  return input * mask.to(input.device(), type, /*non_blocking=*/true).to(input.scalar_type());
}

void name_layers(torch::nn::Module& model) { name_below(model, ""); }

}  // namespace lockstep::parallel
