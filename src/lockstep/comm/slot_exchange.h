// lockstep/comm/slot_exchange.h
//
// Small messages between two ranks, exchanged pairwise: each sends one (perhaps
// empty) and reads the other's where it lies. The stamp of a slot carries the number
// of the exchange between the two and the fingerprint of the collective, so no
// barrier is needed. There are two slots per direction: a slot is used again two
// exchanges later, and by then its reader has sent the message of the one between.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/comm/channel.h"
#include "lockstep/comm/slot_copy.h"

namespace lockstep::comm {

class SlotExchange {
 public:
  enum class Arrival { Pending, Complete, Mismatch };

  SlotExchange() = default;
  /// Exchange `number` between `rank` and `peer`, counted by both.
  SlotExchange(const Channel& channel, int rank, int peer, std::uint64_t number, std::uint32_t fingerprint) noexcept
      : out_(channel.slot(peer, rank, number & 1)),
        in_(channel.slot(rank, peer, number & 1)),
        stamp_(number << 32 | fingerprint) {}

  void push(SlotCopy copy, const std::byte* data, std::size_t bytes) const noexcept { copy(out_, data, bytes, stamp_); }

  /// Whether the message is there.
  Arrival arrival() const noexcept {
    const std::uint64_t stamp = in_->stamp.load(std::memory_order_acquire);
    if (stamp == stamp_) return Arrival::Complete;
    return stamp >> 32 == stamp_ >> 32 ? Arrival::Mismatch : Arrival::Pending;
  }
  /// A message of `bytes` that is there. Readable until this rank's message of the next exchange is sent.
  const std::byte* message(std::size_t bytes) const noexcept {
    return reinterpret_cast<const std::byte*>(bytes <= SlotLine::kShort ? in_ : in_ + 1);
  }

 private:
  SlotLine* out_ = nullptr;
  const SlotLine* in_ = nullptr;
  std::uint64_t stamp_ = 0;
};

}  // namespace lockstep::comm
