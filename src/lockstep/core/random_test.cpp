#include "lockstep/core/random.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

// The known answers that come with Random123.
TEST(Philox, GivesThePublishedNumbers) {
  EXPECT_EQ(philox4x32({}, {}), (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, StreamsAreTheirBlocks) {
  Random stream(1, 2);
  for (std::uint32_t place = 0; place < 3; ++place) {
    for (const auto word : philox4x32({place, 0, 2, 0}, {1, 0})) EXPECT_EQ(stream.bits32(), word);
  }
  EXPECT_NE(Random(1, 2).bits64(), Random(1, 3).bits64());
  EXPECT_NE(Random(1, 2).bits64(), Random(std::uint64_t{1} << 32, 2).bits64());
}

TEST(Philox, NumbersHaveTheirMoments) {
  constexpr int kCount = 100'000;
  Random stream(7, 0);
  double sum = 0, squares = 0, uniform_sum = 0;
  for (int i = 0; i < kCount; ++i) {
    const double normal = stream.normal(), uniform = stream.uniform();
    sum += normal;
    squares += normal * normal;
    uniform_sum += uniform;
    ASSERT_TRUE(std::isfinite(normal));
    ASSERT_GE(uniform, 0);
    ASSERT_LT(uniform, 1);
    ASSERT_LT(stream.below(10), 10U);
  }
  EXPECT_NEAR(sum / kCount, 0, 0.02);  // six deviations
  EXPECT_NEAR(squares / kCount, 1, 0.03);
  EXPECT_NEAR(uniform_sum / kCount, 0.5, 0.006);
}

}  // namespace
}  // namespace lockstep
