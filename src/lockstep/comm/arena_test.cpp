#include "lockstep/comm/arena.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/core/error.h"
#include "lockstep/core/handle.h"

namespace lockstep::comm {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

/// A file in memory, as the arenas of a segment are; only touched pages cost memory.
class Memory {
 public:
  explicit Memory(std::size_t bytes) : file_(memfd_create("arena_test", MFD_CLOEXEC)), bytes_(bytes) {
    EXPECT_EQ(ftruncate(file_.get(), static_cast<off_t>(bytes)), 0);
    // Huge pages start at multiples of their size, so the arena must too.
    constexpr std::size_t kAlignment = 2 * kMiB;
    reserved_ =
        static_cast<std::byte*>(mmap(nullptr, bytes + kAlignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    const auto address = reinterpret_cast<std::uintptr_t>(reserved_);
    base_ = reserved_ + (kAlignment - address % kAlignment) % kAlignment;
    mmap(base_, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file_.get(), 0);
  }
  ~Memory() { munmap(reserved_, bytes_ + 2 * kMiB); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* base() const { return base_; }
  std::size_t bytes() const { return bytes_; }
  std::size_t resident_bytes() const {
    struct stat info{};
    fstat(file_.get(), &info);
    return static_cast<std::size_t>(info.st_blocks) * 512;
  }

 private:
  FileDescriptor file_;
  std::size_t bytes_;
  std::byte* reserved_;
  std::byte* base_;
};

bool aligned(const std::byte* piece, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(piece) % alignment == 0;
}

TEST(Arena, AlignsByTheSizeOfThePiece) {
  const Memory memory(64 * kMiB);
  Arena arena(nullptr, memory.base(), memory.bytes());
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{127}, std::size_t{129}, std::size_t{4095}}) {
    EXPECT_TRUE(aligned(arena.allocate(bytes), 128)) << bytes;
  }
  EXPECT_TRUE(aligned(arena.allocate(5000), 4096));
  EXPECT_TRUE(aligned(arena.allocate(3 * kMiB), 2 * kMiB));
}

TEST(Arena, ZeroesWhatWasUsedBeforeWithoutTouchingIt) {
  const Memory memory(16 * kMiB);
  Arena arena(nullptr, memory.base(), memory.bytes());
  for (const std::size_t bytes : {std::size_t{100}, std::size_t{5000}, 3 * kMiB + 77}) {
    std::byte* const used = arena.allocate(bytes);
    std::memset(used, 0xee, bytes);
    arena.release(used);
    std::byte* const piece = arena.allocate_zeroed(bytes);
    EXPECT_LE(memory.resident_bytes(), std::size_t{64} << 10) << bytes;
    EXPECT_TRUE(std::all_of(piece, piece + bytes, [](std::byte byte) { return byte == std::byte{0}; })) << bytes;
    std::memset(piece, 0xee, bytes);
    arena.release(piece);
    madvise(memory.base(), memory.bytes(), MADV_REMOVE);
  }
}

TEST(Arena, MergesWhatIsReleasedInAnyOrder) {
  const Memory memory(16 * kMiB);
  Arena arena(nullptr, memory.base(), memory.bytes());
  std::vector<int> order = {0, 1, 2, 3};
  do {
    std::vector<std::byte*> pieces;
    for (int i = 0; i < 4; ++i) pieces.push_back(arena.allocate(4 * kMiB));
    EXPECT_THROW(arena.allocate(1), Error);
    for (const int i : order) arena.release(pieces[static_cast<std::size_t>(i)]);
    EXPECT_EQ(arena.used_bytes(), 0U);
    arena.release(arena.allocate(16 * kMiB));  // one whole again
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Arena, TakesTheSmallestPlaceThatFits) {
  const Memory memory(kMiB);
  Arena arena(nullptr, memory.base(), memory.bytes());
  std::byte* const large = arena.allocate(1024);
  const std::byte* const fence = arena.allocate(128);
  std::byte* const small = arena.allocate(256);
  const std::byte* const other_fence = arena.allocate(128);
  EXPECT_LT(fence, other_fence);
  arena.release(large);
  arena.release(small);
  EXPECT_EQ(arena.allocate(200), small);
  EXPECT_EQ(arena.allocate(1000), large);
}

TEST(Arena, SaysHowFullItIs) {
  const Memory memory(kMiB);
  Arena arena(nullptr, memory.base(), memory.bytes());
  arena.allocate(kMiB / 2);
  for (const std::size_t bytes : {kMiB, SIZE_MAX - 5, SIZE_MAX}) {
    try {
      arena.allocate(bytes);
      FAIL() << "there was room for " << bytes;
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Comm);
      EXPECT_NE(std::string(error.what()).find("524288 of 1048576 in use"), std::string::npos) << error.what();
    }
  }
  arena.allocate(kMiB / 2);
  Arena nothing(nullptr, nullptr, 0);
  EXPECT_THROW(nothing.allocate(0), Error);
}

TEST(Arena, IgnoresWhatItDidNotHandOut) {
  const Memory memory(kMiB);
  Arena arena(nullptr, memory.base(), memory.bytes());
  std::byte* const piece = arena.allocate(100);
  arena.release(piece + 1);
  EXPECT_EQ(arena.used_bytes(), 128U);
  arena.release(piece);
  arena.release(piece);
  EXPECT_EQ(arena.used_bytes(), 0U);
}

TEST(Arena, GivesLargePiecesBackToTheSystem) {
  const Memory memory(64 * kMiB);
  Arena arena(nullptr, memory.base(), memory.bytes());
  std::byte* const large = arena.allocate(32 * kMiB);
  std::byte* const small = arena.allocate(4 * kMiB);
  std::memset(large, 1, 32 * kMiB);
  std::memset(small, 2, 4 * kMiB);
  EXPECT_GE(memory.resident_bytes(), 36 * kMiB);
  arena.release(large);
  EXPECT_LE(memory.resident_bytes(), 8 * kMiB);
  EXPECT_EQ(small[4 * kMiB - 1], std::byte{2}) << "a neighbour's memory is gone";
}

/// Allocates and releases at random; each piece is full of its own number.
void churn(Arena& arena, unsigned seed, int rounds) {
  struct Piece {
    std::byte* memory;
    std::size_t bytes;
    std::byte mark;
  };
  std::mt19937 random(seed);
  std::vector<Piece> pieces;
  const auto give_back = [&](std::size_t index) {
    const Piece piece = pieces[index];
    const auto same = [&](std::byte byte) { return byte == piece.mark; };
    EXPECT_TRUE(std::all_of(piece.memory, piece.memory + piece.bytes, same)) << "two pieces overlap";
    arena.release(piece.memory);
    pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(index));
  };
  for (int round = 0; round < rounds; ++round) {
    if (!pieces.empty() && random() % 2 == 0) {
      give_back(random() % pieces.size());
      continue;
    }
    // From one byte to some megabytes, small ones more often.
    const std::size_t bytes = random() % (std::size_t{2} << random() % 22) + 1;
    try {
      std::byte* const memory = arena.allocate(bytes);
      const auto mark = static_cast<std::byte>(seed * 101 + static_cast<unsigned>(round));
      std::memset(memory, static_cast<int>(mark), bytes);
      pieces.push_back({memory, bytes, mark});
    } catch (const Error&) {  // full
      while (!pieces.empty()) give_back(pieces.size() - 1);
    }
  }
  while (!pieces.empty()) give_back(0);
}

TEST(Arena, SurvivesARandomWalk) {
  const Memory memory(32 * kMiB);
  Arena arena(nullptr, memory.base(), memory.bytes());
  churn(arena, 1, 4000);
  EXPECT_EQ(arena.used_bytes(), 0U);
  arena.release(arena.allocate(32 * kMiB));
}

TEST(Arena, SurvivesTwoThreads) {
  const Memory memory(32 * kMiB);
  Arena arena(nullptr, memory.base(), memory.bytes());
  std::thread other([&] { churn(arena, 2, 2000); });
  churn(arena, 3, 2000);
  other.join();
  EXPECT_EQ(arena.used_bytes(), 0U);
  arena.release(arena.allocate(32 * kMiB));
}

}  // namespace
}  // namespace lockstep::comm
