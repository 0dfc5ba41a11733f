#include "lockstep/data/datasets/generator.h"

#include <limits>

#include <fmt/format.h>

namespace lockstep::data {
namespace {

/// Streams below are those of samples.
constexpr std::uint64_t kSharedStreams = std::uint64_t{1} << 63;
constexpr std::int64_t kMostSamples = std::int64_t{1} << 53;

}  // namespace

Generator::Generator(std::string name, Arguments& arguments)
    : name_(std::move(name)),
      samples_(arguments.get("samples", std::int64_t{10'000}, 1, kMostSamples)),
      seed_(static_cast<std::uint64_t>(
          arguments.get("seed", std::int64_t{1}, 0, std::numeric_limits<std::int64_t>::max()))) {}

void Generator::read(std::int64_t index, Sample& sample) const {
  sample.clear(schema_.size());
  fill(index, Random(seed_, static_cast<std::uint64_t>(index)), sample);
}

std::string Generator::name(std::int64_t index) const { return fmt::format("{}: sample {}", name_, index); }

Random Generator::shared_random(std::uint64_t number) const noexcept { return {seed_, kSharedStreams + number}; }

void Generator::add_label(std::int64_t classes) {
  Field field{"label", Encoding::Values, c10::ScalarType::Long};
  for (std::int64_t number = 0; number < classes; ++number) field.classes.push_back(std::to_string(number));
  add_field(std::move(field));
}

}  // namespace lockstep::data
