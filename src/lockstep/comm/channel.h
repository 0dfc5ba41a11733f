// lockstep/comm/channel.h
//
// The part of shared memory through which the ranks of one communicator on one
// host meet. Per lane and rank one line with a step counter and the addresses of
// its buffers; per pair of ranks two slots for small messages (the payload
// travels in the lines that carry its arrival) and a line for send and receive;
// per rank a ring of the collectives it issued, read when ranks disagree; per lane
// and rank two windows through which private memory is staged. All zero is a valid
// start.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lockstep/comm/descriptor.h"
#include "lockstep/comm/segment.h"
#include "lockstep/comm/types.h"

namespace lockstep::comm {

/// A line of a slot. A short message lies in the first one, beside the stamp that says it is
/// there; a longer one fills the lines behind it.
struct alignas(64) SlotLine {
  static constexpr std::size_t kShort = 56;
  std::array<std::byte, kShort> payload;
  std::atomic<std::uint64_t> stamp;  // exchange number and fingerprint; in the first line only
};

/// A block of a rank's buffer that is meant for one other rank.
struct OfferedBlock {
  std::uint64_t at;  // bytes from the start of the buffer
  std::uint64_t bytes;
};

struct alignas(kLine) LaneLine {
  std::atomic<std::uint64_t> step;
  // By parity of the operation: the next may be announced while a slow peer reads the last.
  struct Announcement {
    std::uint64_t fingerprint;
    std::uint64_t buffer;         // its shared address, 0: private memory
    std::uint64_t longest_block;  // bytes, where blocks differ in size
    std::uint64_t output;         // shared address of a second buffer, for collectives over hosts
  };
  std::array<Announcement, 2> announcement;
};
static_assert(sizeof(LaneLine) == kLine);

/// One direction between two ranks: the sender's line, then the receiver's.
struct alignas(kLine) PairLine {
  std::atomic<std::uint64_t> sent;  // pieces made available since the start
  std::int64_t count;
  std::int32_t type;
  std::uint64_t address;                            // of the whole message, or of the sender's two windows
  std::uint64_t window_bytes;                       // 0: the message lies whole at `address`
  alignas(kLine) std::atomic<std::uint64_t> taken;  // pieces copied away since the start
};

struct alignas(64) IssuedEntry {
  std::atomic<std::uint64_t> sequence_plus_one;  // 0 while being written
  std::atomic<std::uint64_t> kind;               // collective, type, op, root and lane
  std::atomic<std::int64_t> count;
  std::array<std::atomic<std::uint64_t>, 4> name;  // only the first word if there is no name
};

std::size_t channel_bytes(int ranks);

class Channel {
 public:
  static constexpr std::uint64_t kIssuedEntries = 64;
  /// The largest window; tuning may use less of it.
  static constexpr std::size_t kWindowBytes = std::size_t{1} << 20;

  Channel(std::byte* base, int ranks) noexcept;

  int ranks() const noexcept { return ranks_; }
  LaneLine& line(Lane lane, int rank) const noexcept { return lines_[static_cast<int>(lane) * ranks_ + rank]; }
  /// Lines of the slot in which `to` receives from `from`.
  SlotLine* slot(int to, int from, std::uint64_t parity) const noexcept {
    return slots_ + ((static_cast<std::size_t>(to) * ranks_ + from) * 2 + parity) * slot_lines_;
  }
  std::size_t slot_payload() const noexcept { return (slot_lines_ - 1) * sizeof(SlotLine); }
  PairLine& pair(int from, int to) const noexcept { return pairs_[static_cast<std::size_t>(from) * ranks_ + to]; }
  /// What `rank` offers to each destination, for collectives of unequal sizes.
  OfferedBlock* blocks(Lane lane, int rank) const noexcept {
    return blocks_ + (static_cast<std::size_t>(lane) * ranks_ + rank) * ranks_;
  }

  /// One of the two windows of `rank`, kWindowBytes long. First touched by its rank, it lies in that rank's memory.
  std::byte* window(Lane lane, int rank, std::uint64_t parity) const noexcept {
    return windows_ + ((static_cast<std::size_t>(lane) * ranks_ + rank) * 2 + parity) * kWindowBytes;
  }
  /// Members that will not touch the channel any more.
  std::atomic<std::uint32_t>& left() const noexcept { return *left_; }

  void record_issued(int rank, const Descriptor& descriptor) const noexcept;
  /// False if `rank` has not issued `sequence` yet, or so long ago that it is forgotten.
  bool issued(int rank, std::uint64_t sequence, Descriptor& descriptor) const noexcept;
  /// How many collectives `rank` has issued.
  std::uint64_t issued_count(int rank) const noexcept;

 private:
  struct alignas(kLine) Issued {
    std::atomic<std::uint64_t> count;
    std::array<IssuedEntry, kIssuedEntries> entries;
  };
  friend std::size_t channel_bytes(int ranks);

  int ranks_;
  std::size_t slot_lines_;
  LaneLine* lines_;
  PairLine* pairs_;
  Issued* issued_;
  OfferedBlock* blocks_;
  SlotLine* slots_;
  std::atomic<std::uint32_t>* left_;
  std::byte* windows_;
};

}  // namespace lockstep::comm
