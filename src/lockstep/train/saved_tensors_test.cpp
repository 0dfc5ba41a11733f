#include "lockstep/train/saved_tensors.h"

#include <sys/resource.h>

#include <string>

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lockstep/core/testing.h"

namespace lockstep::train {
namespace {

TEST(SavedTensors, ComeFromMoreFilesThanMayBeOpenAtOnce) {
  const test::TemporaryFolder folder;
  constexpr int kFiles = 200;
  const at::Tensor whole = at::arange(3 * kFiles, at::kFloat);
  SavedTensors saved;
  const auto add = [&](int number) {
    const std::string path = fmt::format("{}/{}.safetensors", folder.path(), number);
    const data::NamedTensors tensors{{"w", whole.narrow(0, 3 * number, 3)}};
    (void)data::write_safetensors(path, tensors);
    const parallel::ParameterPart part({3 * kFiles}, {.dim = 0, .index = number, .count = kFiles});
    saved.add(path, noted_parts(tensors, {{"w", part}}));
  };
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{100, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  for (int number = 0; number < kFiles; ++number) add(number);
  EXPECT_TRUE(at::equal(saved.read("w"), whole));
  setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace lockstep::train
