// lockstep/ml/kernels/testing.h
//
// For tests: a kernel gives the same bits whatever the width of the processor's vectors.
#pragma once

#include <cstdint>

#include <gtest/gtest.h>
#include <hwy/targets.h>

namespace lockstep::ml::testing {

/// Compares what `compute` gives with each kind of vectors that this processor has. Skips the test if it has one alone.
template <class Compute>
void expect_same_bits_with_any_vectors(const Compute& compute) {
  hwy::SetSupportedTargetsForTest(0);
  const std::int64_t all = hwy::SupportedTargets() & (HWY_AVX2 | HWY_AVX3 | HWY_NEON);
  const auto best = compute();
  int tried = 0;
  for (std::int64_t targets = all; targets != 0; targets &= targets - 1) {
    hwy::SetSupportedTargetsForTest(targets & -targets);
    EXPECT_EQ(compute(), best) << hwy::TargetName(targets & -targets);
    ++tried;
  }
  hwy::SetSupportedTargetsForTest(0);
  if (tried < 2) GTEST_SKIP() << "this processor has one kind of vectors alone";
}

}  // namespace lockstep::ml::testing
