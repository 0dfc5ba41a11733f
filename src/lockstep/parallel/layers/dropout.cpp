#include "lockstep/parallel/layers/dropout.h"

#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/hash.h"
#include "lockstep/core/random.h"
#include "lockstep/parallel/random_key.h"

namespace lockstep::parallel {
namespace {

/// Zeros, and what makes up for them, each element by bits of its own number: the same however many threads fill it.
template <class Number>
void fill_mask(at::Tensor& mask, std::uint64_t stream, std::uint64_t seed, double probability) {
  constexpr std::int64_t kGrain = 1 << 14;
  auto* values = mask.mutable_data_ptr<Number>();
  const std::int64_t count = mask.numel();
  const auto kept = static_cast<Number>(1 / (1 - probability));
  const auto below = static_cast<std::uint64_t>(probability * 0x1p32);
  const PhiloxKey key = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  at::parallel_for(0, (count + 3) / 4, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      const auto bits = philox4x32({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                                    static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)},
                                   key);
      for (std::int64_t i = 4 * block; i < std::min(count, 4 * block + 4); ++i) {
        values[i] = bits[static_cast<std::size_t>(i - 4 * block)] < below ? Number{0} : kept;
      }
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

at::Tensor DropoutImpl::forward(const at::Tensor& input) {
  if (!is_training() || probability_ == 0) return input;
  const auto type = input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  // From pinned memory a GPU fetches it while this thread goes on.
  at::Tensor mask = at::empty(input.sizes(), at::TensorOptions(type).pinned_memory(input.is_cuda()));
  const RandomKey& now = random_key();
  const std::uint64_t stream = mix(key, now.step, now.shard);
  type == at::kDouble ? fill_mask<double>(mask, stream, now.seed, probability_)
                      : fill_mask<float>(mask, stream, now.seed, probability_);
  return input * mask.to(input.device(), type, /*non_blocking=*/true).to(input.scalar_type());
}

void name_layers(torch::nn::Module& model) { name_below(model, ""); }

}  // namespace lockstep::parallel
