// lockstep/comm/slot_exchange.h
//
// One exchange of small messages: every rank pushes a message (perhaps empty) to
// every other and receives one from each. The stamp of a line carries the number
// of the exchange and the fingerprint of the collective, so a payload and its
// arrival are one cache-line transfer and no barrier is needed. A slot is used
// again two exchanges later: by then its reader has answered the one between.
#pragma once

#include <algorithm>
#include <cstring>

#include "lockstep/comm/channel.h"

namespace lockstep::comm {

class SlotExchange {
 public:
  SlotExchange() = default;
  SlotExchange(int rank, std::uint64_t number, std::uint32_t fingerprint) noexcept
      : rank_(rank), parity_(number & 1), stamp_(number << 32 | fingerprint) {}

  void push(const Channel& channel, int to, const std::byte* data, std::size_t bytes) const noexcept {
    SlotLine* line = channel.slot(to, rank_, parity_);
    for (; bytes > SlotLine::kPayload; ++line, data += SlotLine::kPayload, bytes -= SlotLine::kPayload) {
      std::memcpy(line->payload.data(), data, SlotLine::kPayload);
      line->stamp.store(stamp_, std::memory_order_release);
    }
    if (bytes > 0) std::memcpy(line->payload.data(), data, bytes);
    line->stamp.store(stamp_, std::memory_order_release);
  }

  enum class Arrival { Pending, Complete, Mismatch };

  /// Takes what has arrived from `from`; `taken` counts the bytes so far and is
  /// `bytes` + 1 once an empty message has come.
  Arrival pull(const Channel& channel, int from, std::byte* data, std::size_t bytes, std::size_t& taken) const noexcept {
    const std::size_t wanted = std::max<std::size_t>(bytes, 1);
    SlotLine* line = channel.slot(rank_, from, parity_) + taken / SlotLine::kPayload;
    for (; taken < wanted; ++line) {
      const std::uint64_t stamp = line->stamp.load(std::memory_order_acquire);
      if (stamp != stamp_) {
        const bool same_number = stamp >> 32 == stamp_ >> 32;
        return same_number ? Arrival::Mismatch : Arrival::Pending;
      }
      if (bytes - taken >= SlotLine::kPayload && bytes > 0) {
        std::memcpy(data + taken, line->payload.data(), SlotLine::kPayload);
        taken += SlotLine::kPayload;
      } else {
        std::memcpy(data + taken, line->payload.data(), bytes - std::min(taken, bytes));
        taken = wanted;
      }
    }
    return Arrival::Complete;
  }

 private:
  int rank_ = 0;
  std::uint64_t parity_ = 0;
  std::uint64_t stamp_ = 0;
};

}  // namespace lockstep::comm
