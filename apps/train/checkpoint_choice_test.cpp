#include "train/checkpoint_choice.h"

#include <string>

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lockstep/core/error.h"
#include "lockstep/core/testing.h"
#include "lockstep/data/safetensors.h"
#include "lockstep/parallel/allocation_meter.h"

namespace lockstep::apps {
namespace {

TEST(CheckpointChoice, ExportsWeightsOneAfterAnother) {
  constexpr std::int64_t kTensors = 16, kElements = 1 << 16;
  constexpr std::int64_t kBytes = kElements * 4;
  const test::TemporaryFolder folder;
  const train::CheckpointFolder checkpoints(folder.path());
  {
    parallel::Parameters all;
    for (std::int64_t number = 0; number < kTensors; ++number) {
      const std::string name = fmt::format("layer{}.weight", number);
      all.push_back({name, at::full({kElements}, static_cast<double>(number))});
      if (number > 0) all.push_back({"ema/" + name, at::full({kElements}, static_cast<double>(number) + 0.5)});
      all.push_back({"optimizer/exp_avg/" + name, at::full({kElements}, 9.0)});
    }
    const auto entry = checkpoints.write_part(1, 0, all, {}, [](const auto& one) { return one.tensor; });
    checkpoints.complete(1, {}, {entry});
  }
  const auto checkpoint = checkpoints.read(1);
  for (const bool averaged : {false, true}) {
    const std::string path = folder.path() + "/weights";
    const CheckpointChoice choice{.averaged = averaged};
    const parallel::AllocationMeter meter;
    EXPECT_EQ(export_weights(checkpoint, choice, path), static_cast<std::size_t>(kTensors));
    EXPECT_LE(meter.peak_bytes(), 3 * kBytes);
    const data::Safetensors file(path);
    ASSERT_EQ(std::ssize(file.names()), kTensors);
    for (const auto& [name, tensor] : weights_of(checkpoint, choice)) {
      EXPECT_TRUE(at::equal(file.read(name), tensor)) << name;
    }
    EXPECT_EQ(file.read("layer0.weight")[0].item<double>(), 0);  // of which there is no average
    EXPECT_EQ(file.read("layer3.weight")[0].item<double>(), averaged ? 3.5 : 3);
  }
}

}  // namespace
}  // namespace lockstep::apps
