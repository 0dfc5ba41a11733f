// lockstep/ml/kernels/testing.h
//
// For tests: a kernel gives the same bits whatever the width of the processor's vectors.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <hwy/targets.h>

namespace lockstep::ml::testing {

/// What is the same on any processor is the same text.
inline std::string bits_of(const std::vector<double>& values) {
  const std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
  return std::to_string(std::hash<std::string_view>()(bytes));
}

/// Compares what `compute` gives with each kind of vectors that this processor has. Skips the test if it has one alone.
/// The test's report has the bits as its properties, for a comparison with other processors.
inline void expect_same_bits_with_any_vectors(const std::function<std::vector<double>()>& compute) {
  static int number = 0;
  hwy::SetSupportedTargetsForTest(0);
  const std::int64_t all = hwy::SupportedTargets() & (HWY_AVX2 | HWY_AVX3 | HWY_NEON);
  const auto best = compute();
  ::testing::Test::RecordProperty("bits" + std::to_string(number++), bits_of(best));
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
