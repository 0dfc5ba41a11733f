#include "lockstep/comm/segment.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/comm/channel.h"
#include "lockstep/comm/task.h"
#include "lockstep/core/version.h"

namespace lockstep::comm {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

Error error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return {Fault::Internal, "nothing thrown", std::source_location::current()};
}

bool has(const Error& error, const std::string& part) {
  return std::string(error.what()).find(part) != std::string::npos;
}

TEST(Segment, IsSharedByAllWhoAttach) {
  const FileDescriptor file = Segment::create(3);
  const auto one = Segment::attach(file.get());
  const auto other = Segment::attach(file.get());
  EXPECT_EQ(other->ranks(), 3);
  EXPECT_FALSE(other->threads());
  EXPECT_NE(one->base(), other->base());
  one->status(2).pid = 1234;
  one->status(2).span.set("load batch");
  EXPECT_EQ(other->status(2).pid, 1234);
  EXPECT_EQ(other->status(2).span.get(), "load batch");
  one->arena(1)[one->arena_bytes() - 1] = std::byte{7};
  EXPECT_EQ(other->arena(1)[other->arena_bytes() - 1], std::byte{7});
  EXPECT_LE(other->arena(2) + other->arena_bytes(), other->base() + other->bytes());
}

TEST(Segment, StartsZeroed) {
  const auto segment = Segment::for_threads(4);
  EXPECT_TRUE(segment->threads());
  EXPECT_EQ(segment->arena_bytes(), 0U);
  EXPECT_FALSE(segment->aborted());
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(static_cast<RankPhase>(segment->status(rank).phase.load()), RankPhase::Starting);
    EXPECT_EQ(segment->doorbell(rank).rings.load(), 0U);
  }
  const Channel channel(segment->world_channel(), 4);
  EXPECT_EQ(channel.issued_count(3), 0U);
  EXPECT_LE(segment->world_channel() + channel_bytes(4), segment->base() + segment->bytes());
}

TEST(Segment, RefusesImpossibleNumbersOfRanks) {
  EXPECT_TRUE(has(error_of([] { Segment::create(0); }), "0 ranks on one host"));
  EXPECT_TRUE(has(error_of([] { Segment::create(1025); }), "1025 ranks"));
  EXPECT_TRUE(has(error_of([] { Segment::for_threads(-1); }), "-1 ranks"));
}

TEST(Segment, RefusesAnotherVersion) {
  const FileDescriptor file = Segment::create(1);
  std::strcpy(Segment::attach(file.get())->header().version, "0.0.7-old");
  const Error error = error_of([&] { Segment::attach(file.get()); });
  EXPECT_EQ(error.fault(), Fault::Usage);
  EXPECT_TRUE(has(error, "launched by 0.0.7-old") && has(error, kVersion)) << error.what();
}

TEST(Segment, RefusesWhatIsNotASegment) {
  const FileDescriptor empty(memfd_create("segment_test", MFD_CLOEXEC));
  EXPECT_TRUE(has(error_of([&] { Segment::attach(empty.get()); }), "is not the launcher's shared memory"));
  const FileDescriptor other(memfd_create("segment_test", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(other.get(), 1 << 20), 0);
  EXPECT_TRUE(has(error_of([&] { Segment::attach(other.get()); }), "is not the launcher's shared memory"));
  EXPECT_TRUE(has(error_of([] { Segment::attach(-1); }), "is not the launcher's shared memory"));
}

// ---- the first cause ---------------------------------------------------------------------------

TEST(Segment, KeepsTheFirstCause) {
  const auto segment = Segment::for_threads(2);
  segment->abort(1, 2, Fault::Data, "shard 7 is torn");
  segment->abort(0, 1, Fault::Comm, "rank 1 has died");
  ASSERT_TRUE(segment->aborted());
  const AbortRecord& record = segment->header().abort;
  EXPECT_EQ(record.rank, 1);
  EXPECT_EQ(record.exit_code, 2);
  const Error error = error_of([&] { segment->throw_abort(); });
  EXPECT_EQ(error.fault(), Fault::Data);
  EXPECT_STREQ(error.what(), "shard 7 is torn");
}

TEST(Segment, CutsAMessageThatIsTooLong) {
  const auto segment = Segment::for_threads(1);
  segment->abort(0, 1, Fault::Comm, std::string(100'000, 'x'));
  EXPECT_EQ(std::strlen(segment->header().abort.message), sizeof(AbortRecord::message) - 1);
}

TEST(Segment, KeepsOneWholeCauseOfManyAtOnce) {
  for (int round = 0; round < 50; ++round) {
    const auto segment = Segment::for_threads(4);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 4; ++rank) {
      threads.emplace_back(
          [&, rank] { segment->abort(rank, rank + 1, Fault::Comm, std::string(2000, static_cast<char>('a' + rank))); });
    }
    for (auto& thread : threads) thread.join();
    ASSERT_TRUE(segment->aborted());
    const AbortRecord& record = segment->header().abort;
    EXPECT_EQ(record.exit_code, record.rank + 1);
    EXPECT_EQ(record.message, std::string(2000, static_cast<char>('a' + record.rank)));
  }
}

TEST(Segment, AbortWakesWhoSleeps) {
  const auto segment = Segment::for_threads(2);
  const auto start = monotonic_ns();
  std::thread sleeper([&] {
    while (!segment->aborted()) {
      const Sleep sleep(*segment, 1, segment->rings(1));
      sleep.wait([&] { return segment->aborted(); }, 30 * kSecond);
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  segment->abort(0, 1, Fault::Comm, "over");
  sleeper.join();
  EXPECT_LT(monotonic_ns() - start, 15 * kSecond);
}

TEST(Segment, SaysWhereARankIs) {
  const auto segment = Segment::for_threads(1);
  StatusPage& page = segment->status(0);
  EXPECT_EQ(describe_place(page, 0), "outside any span");
  page.span.set("load batch");
  page.span_since_ns = 2 * kSecond;
  EXPECT_EQ(describe_place(page, 5 * kSecond + kSecond / 10), "in span 'load batch' for 3.1 s");
}

// ---- sleeping ----------------------------------------------------------------------------------

/// Lines that both ranks write: a store to one waits until the other core gives it away.
struct alignas(kLine) ContestedLine {
  std::atomic<std::uint32_t> value{0};
};

// Two ranks wait for each other in turn. A wake-up that is lost costs the whole
// timeout, so a sleep that lasted long is the failure.
void play(const Segment& one, const Segment& other, std::atomic<std::uint32_t>& ball,
          std::atomic<std::uint32_t>& same_ball) {
  constexpr std::uint32_t kRounds = 60'000;
  constexpr std::int64_t kTimeout = 10 * kSecond;
  std::array<ContestedLine, 24> contested;
  const auto player = [&](const Segment& segment, std::atomic<std::uint32_t>& shared, int rank, std::int64_t& longest) {
    std::minstd_rand random(static_cast<unsigned>(rank + 1));
    for (std::uint32_t round = 0; round < kRounds && longest < kTimeout / 2; ++round) {
      const std::uint32_t wanted = 2 * round + static_cast<std::uint32_t>(rank);
      const auto come = [&] { return shared.load(std::memory_order_acquire) == wanted; };
      // Falls asleep at any moment of what the other does.
      for (auto looks = random() % 200; looks > 0 && !come(); --looks) spin_pause();
      while (!come() && longest < kTimeout / 2) {
        const Sleep sleep(segment, rank, segment.rings(rank));
        const std::int64_t start = monotonic_ns();
        sleep.wait(come, kTimeout);
        longest = std::max(longest, monotonic_ns() - start);
      }
      // The ball waits in the store buffer behind these: that is when a missing fence shows.
      for (auto& line : contested) line.value.store(round, std::memory_order_relaxed);
      shared.store(wanted + 1, std::memory_order_release);
      segment.notify();
    }
  };
  std::int64_t longest[2] = {0, 0};
  std::thread second([&] { player(other, same_ball, 1, longest[1]); });
  player(one, ball, 0, longest[0]);
  second.join();
  EXPECT_LT(longest[0], kTimeout / 2) << "a wake-up was lost";
  EXPECT_LT(longest[1], kTimeout / 2) << "a wake-up was lost";
  EXPECT_EQ(one.header().sleepers.load(), 0U);
}

TEST(Sleep, LosesNoWakeUpBetweenThreads) {
  const auto segment = Segment::for_threads(2);
  std::atomic<std::uint32_t> ball{0};
  play(*segment, *segment, ball, ball);
}

// As two processes do it: each has a mapping of its own.
TEST(Sleep, LosesNoWakeUpBetweenMappings) {
  const FileDescriptor file = Segment::create(2);
  const auto one = Segment::attach(file.get());
  const auto other = Segment::attach(file.get());
  play(*one, *other, *reinterpret_cast<std::atomic<std::uint32_t>*>(one->arena(0)),
       *reinterpret_cast<std::atomic<std::uint32_t>*>(other->arena(0)));
}

TEST(Sleep, ReturnsAtOnceIfItWasRungMeanwhile) {
  const auto segment = Segment::for_threads(1);
  const Sleep sleep(*segment, 0, segment->rings(0));
  segment->ring(0);
  const auto start = monotonic_ns();
  sleep.wait([] { return false; }, 20 * kSecond);
  EXPECT_LT(monotonic_ns() - start, 10 * kSecond);
}

TEST(Sleep, EndsWithItsTimeout) {
  const auto segment = Segment::for_threads(1);
  const auto start = monotonic_ns();
  {
    const Sleep sleep(*segment, 0, segment->rings(0));
    sleep.wait([] { return false; }, kSecond / 50);
  }
  EXPECT_GE(monotonic_ns() - start, kSecond / 100);
  EXPECT_EQ(segment->doorbell(0).sleeping.load(), 0U);
}

}  // namespace
}  // namespace lockstep::comm
