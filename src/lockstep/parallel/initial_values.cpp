#include "lockstep/parallel/initial_values.h"

#include <cmath>
#include <numbers>

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include "lockstep/core/hash.h"
#include "lockstep/core/random.h"

namespace lockstep::parallel {
namespace {

constexpr std::uint32_t low(std::uint64_t word) noexcept { return static_cast<std::uint32_t>(word); }
constexpr std::uint32_t high(std::uint64_t word) noexcept { return static_cast<std::uint32_t>(word >> 32); }

/// Two numbers of [0, 1) for each element, of which a uniform one takes the first.
double value_at(std::uint64_t place, std::uint64_t seed, std::uint64_t stream, const InitialValues& values) {
  const auto bits = philox4x32({low(place), high(place), low(stream), high(stream)}, {low(seed), high(seed)});
  const auto unit = [&](std::size_t word) {
    return static_cast<double>((std::uint64_t{bits[word]} << 32 | bits[word + 1]) >> 11) * 0x1p-53;
  };
  if (values.kind == InitialValues::Kind::Uniform) return values.scale * (2 * unit(0) - 1);
  return values.scale * std::sqrt(-2 * std::log(1 - unit(0))) * std::cos(2 * std::numbers::pi * unit(2));
}

}  // namespace

void fill_(const at::Tensor& tensor, const ParameterPart& part, const InitialValues& values, std::uint64_t seed,
           const std::string& name) {
  const at::NoGradGuard no_gradients;
  if (values.kind == InitialValues::Kind::Constant) {
    tensor.fill_(values.scale);
    return;
  }
  const std::uint64_t stream = hash64(name);
  const auto fill = [&]<class Number>(Number* elements) {
    constexpr std::int64_t kGrain = 1 << 12;
    for (const PartRun& run : part.runs()) {
      at::parallel_for(0, run.count, kGrain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          elements[run.of_part + i] =
              static_cast<Number>(value_at(static_cast<std::uint64_t>(run.of_whole + i), seed, stream, values));
        }
      });
    }
  };
  tensor.scalar_type() == at::kDouble ? fill(tensor.mutable_data_ptr<double>())
                                      : fill(tensor.mutable_data_ptr<float>());
}

void fill_by_torch_(const at::Tensor& tensor, const InitialValues& values) {
  const at::NoGradGuard no_gradients;
  switch (values.kind) {
    case InitialValues::Kind::Constant: tensor.fill_(values.scale); break;
    case InitialValues::Kind::Uniform: tensor.uniform_(-values.scale, values.scale); break;
    case InitialValues::Kind::Normal: tensor.normal_(0, values.scale); break;
  }
}

}  // namespace lockstep::parallel
