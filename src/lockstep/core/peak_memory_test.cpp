#include "lockstep/core/peak_memory.h"

#include <cstdint>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "lockstep/core/memory_of_process.h"

namespace lockstep {
namespace {

// Other programs that map the same libraries come and go meanwhile, and this one's share of them (some 100 MB in all)
// changes with that: a tenth of what is asked for here is more.
constexpr std::int64_t kBytes = std::int64_t{2} << 30;

TEST(Pss, GrowsWithWhatIsUsed) {
  const std::int64_t before = proportional_set_size();
  const std::string used(kBytes, 'x');
  EXPECT_GT(before, 0);
  EXPECT_GE(proportional_set_size() - before, kBytes * 9 / 10) << used.size();
}

TEST(PeakMemory, RemembersWhatIsNoLongerThere) {
  const std::int64_t before = proportional_set_size();
  const PeakMemory peak;
  {
    const std::string used(kBytes, 'x');
    while (peak.proportional() - before < kBytes * 9 / 10)
      std::this_thread::yield();  // the test's timeout ends a blind one
    EXPECT_EQ(used.back(), 'x');
  }
  EXPECT_LT(proportional_set_size() - before, kBytes / 2);
  EXPECT_GE(peak.proportional() - before, kBytes * 9 / 10);
  EXPECT_GE(peak.anonymous(), kBytes);
  EXPECT_LT(anonymous_bytes(), kBytes / 2);
}

}  // namespace
}  // namespace lockstep
