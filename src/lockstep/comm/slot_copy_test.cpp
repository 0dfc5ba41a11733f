// The copies into slots, of every instruction set this processor has: only
// the best of them runs in the other tests.
#include "lockstep/comm/slot_copy.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/comm/channel.h"
#include "lockstep/comm/instruction_set.h"

namespace lockstep::comm {
namespace {

struct Version {
  std::string name;
  SlotCopy copy;
};

/// From the plainest to the best.
std::vector<Version> versions() {
  std::vector<Version> all = {{"baseline", slot_copy_baseline()}};
#if defined(__x86_64__)
  if (instruction_set() >= InstructionSet::Avx2) all.push_back({"avx2", slot_copy_avx2()});
  if (instruction_set() >= InstructionSet::Avx512) all.push_back({"avx512", slot_copy_avx512()});
#endif
  return all;
}

/// Bytes that end where memory ends: one byte too far, read or written, is a crash.
class Edge {
 public:
  explicit Edge(std::size_t bytes)
      : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))), mapped_((bytes / page_ + 2) * page_), bytes_(bytes) {
    memory_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED || mprotect(end(), page_, PROT_NONE) != 0) std::abort();
  }
  ~Edge() { munmap(memory_, mapped_); }
  Edge(const Edge&) = delete;
  Edge& operator=(const Edge&) = delete;

  std::byte* data() const { return end() - bytes_; }

 private:
  std::byte* end() const { return static_cast<std::byte*>(memory_) + mapped_ - page_; }

  std::size_t page_;
  std::size_t mapped_;
  std::size_t bytes_;
  void* memory_ = nullptr;
};

constexpr std::byte kUntouched{0xee};
constexpr std::uint64_t kStamp = 0x1122334455667788, kOld = 7;
// Around a short message, whole lines and many.
constexpr std::size_t kSizes[] = {0, 1, 7, 8, 31, 32, 55, 56, 57, 63, 64, 65, 127, 128, 129, 1024, 4096, 8200};

/// Lines behind the first.
std::size_t long_lines(std::size_t bytes) {
  return bytes <= SlotLine::kShort ? 0 : (bytes + sizeof(SlotLine) - 1) / sizeof(SlotLine);
}

TEST(SlotCopy, WritesAMessageItsStampAndNothingBehind) {
  for (const auto& [name, copy] : versions()) {
    for (const std::size_t bytes : kSizes) {
      SCOPED_TRACE(name + ", " + std::to_string(bytes) + " bytes");
      const Edge message(bytes);
      for (std::size_t i = 0; i < bytes; ++i) message.data()[i] = static_cast<std::byte>(i * 7 + i / 256 + 1);
      std::vector<SlotLine> lines(long_lines(bytes) + 2);
      for (auto& line : lines) {
        line.payload.fill(kUntouched);
        line.stamp = kOld;
      }
      copy(lines.data(), message.data(), bytes, kStamp);
      EXPECT_EQ(lines.front().stamp.load(), kStamp);
      EXPECT_EQ(std::memcmp(&lines[long_lines(bytes) > 0 ? 1 : 0], message.data(), bytes), 0);
      const auto& behind = lines.back();
      EXPECT_EQ(behind.stamp.load(), kOld);
      EXPECT_TRUE(
          std::all_of(behind.payload.begin(), behind.payload.end(), [](std::byte byte) { return byte == kUntouched; }));
    }
  }
}

TEST(SlotCopy, IsTheBestOfThem) { EXPECT_EQ(slot_copy(), versions().back().copy); }

}  // namespace
}  // namespace lockstep::comm
