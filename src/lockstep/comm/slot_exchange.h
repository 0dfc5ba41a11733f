// lockstep/comm/slot_exchange.h
//
// Small messages between two ranks, exchanged pairwise: each sends one (perhaps
// empty) and takes the other's. The stamp of a line carries the number of the
// exchange between the two and the fingerprint of the collective, so a payload and
// its arrival are one cache-line transfer and no barrier is needed. There are two
// slots per direction: a slot is used again two exchanges later, and by then its
// reader has sent the message of the one between.
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

  void push(const SlotCopy& copy, const std::byte* data, std::size_t bytes) const noexcept {
    copy.push(out_, data, bytes, stamp_);
  }

  /// Takes the message to `data` once it is there.
  Arrival pull(const SlotCopy& copy, std::byte* data, std::size_t bytes) const noexcept {
    // Lines are written in order: when the last is there all are, and their transfers
    // overlap. Looking at the first would take it away from its writer.
    const std::size_t full = bytes == 0 ? 0 : (bytes - 1) / SlotLine::kPayload;
    const std::uint64_t stamp = in_[full].stamp.load(std::memory_order_acquire);
    if (stamp != stamp_) return stamp >> 32 == stamp_ >> 32 ? Arrival::Mismatch : Arrival::Pending;
    copy.pull(data, in_, bytes);
    return Arrival::Complete;
  }

 private:
  SlotLine* out_ = nullptr;
  const SlotLine* in_ = nullptr;
  std::uint64_t stamp_ = 0;
};

}  // namespace lockstep::comm
