// lockstep/comm/descriptor.h
//
// A Descriptor is what a rank asks for: ranks that meet compare its fingerprint, and
// where they disagree its words.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "lockstep/comm/types.h"

namespace lockstep::comm {

/// Ranks that meet must agree on all of it.
struct Descriptor {
  Collective collective = Collective::Barrier;
  c10::ScalarType type = c10::ScalarType::Byte;
  ReduceOp op = ReduceOp::Sum;
  Lane lane = Lane::Urgent;
  std::int16_t root = -1;    // or the peer of a message, or the number of shards
  std::uint16_t blocks = 0;  // hash of the counts of unequal blocks, see hash_of_blocks()
  std::int64_t count = 0;
  std::uint64_t sequence = 0;  // counts the collectives issued on the communicator, both lanes
  std::array<char, 32> name{};

  /// Cut where it is too long; null: no name.
  void set_name(const char* text) noexcept;
  /// Everything but count, sequence and name in one word.
  std::uint64_t kind() const noexcept;
  void set_kind(std::uint64_t kind) noexcept;
  /// Equal for equal descriptors; never 0.
  std::uint32_t fingerprint() const noexcept;
  /// "all_reduce(float32[1000], sum, 'grads') #17".
  std::string text() const;
  bool pairwise() const noexcept { return collective == Collective::Send || collective == Collective::Recv; }
  /// Whether it is the barrier kEndOfRun.
  bool ends_run() const noexcept;
};

/// Of the numbers of elements in the blocks of a gather or scatter; 0 where all are equal.
std::uint16_t hash_of_blocks(std::span<const std::int64_t> counts) noexcept;

/// The name of the barrier in which ranks on several hosts wait for each other to end.
inline constexpr char kEndOfRun[] = "end of the run";

/// What to tell ranks that disagree; `theirs` is null if it is not known any more.
std::string describe_disagreement(int my_rank, const Descriptor& mine, int their_rank, const Descriptor* theirs);

/// The same for what travels between two ranks only.
struct MessageSize {
  c10::ScalarType type;
  std::int64_t count;
};
std::string describe_mismatch(int receiver, MessageSize expected, int sender, MessageSize sent);

}  // namespace lockstep::comm
