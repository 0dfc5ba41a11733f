#include "lockstep/train/memory_meter.h"

#include <stdexcept>

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

TEST(MemoryMeter, CountsNothingOnceAnErrorHasLeftAStep) {
  MemoryMeter meter(0);
  at::Tensor of_before = at::empty({1 << 20});
  try {
    const auto measured = meter.begin_step(0);
    throw std::runtime_error("in the midst of a step");
  } catch (const std::runtime_error&) {
  }
  ::testing::internal::CaptureStderr();
  of_before.reset();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");  // libtorch would warn of memory that it has not seen made
}

}  // namespace
}  // namespace lockstep::train
