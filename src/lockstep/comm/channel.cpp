#include "lockstep/comm/channel.h"

#include <algorithm>
#include <cstring>

#include "lockstep/comm/pages.h"

namespace lockstep::comm {
namespace {

// Few ranks get large slots, many ranks small ones: the square of ranks times the
// slot stays bounded.
std::size_t slot_lines(int ranks) {
  const std::size_t pairs = static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks);
  return std::clamp<std::size_t>((std::size_t{1} << 20) / pairs / sizeof(SlotLine), 20, 600);
}

std::size_t lines_bytes(int ranks) { return sizeof(LaneLine) * kLanes * static_cast<std::size_t>(ranks); }
std::size_t pairs_bytes(int ranks) { return sizeof(PairLine) * static_cast<std::size_t>(ranks) * ranks; }
std::size_t blocks_bytes(int ranks) {
  return round_up(sizeof(OfferedBlock) * kLanes * static_cast<std::size_t>(ranks) * ranks, kLine);
}
std::size_t slots_bytes(int ranks) {
  return sizeof(SlotLine) * slot_lines(ranks) * 2 * static_cast<std::size_t>(ranks) * ranks;
}

// Everything before the windows, which start on a page of their own.
std::size_t front_bytes(int ranks, std::size_t issued_bytes) {
  return round_up(
      kLine + lines_bytes(ranks) + pairs_bytes(ranks) + issued_bytes + blocks_bytes(ranks) + slots_bytes(ranks), kPage);
}

}  // namespace

std::size_t channel_bytes(int ranks) {
  return front_bytes(ranks, sizeof(Channel::Issued) * static_cast<std::size_t>(ranks)) +
         Channel::kWindowBytes * 2 * kLanes * static_cast<std::size_t>(ranks);
}

Channel::Channel(std::byte* base, int ranks) noexcept : ranks_(ranks), slot_lines_(slot_lines(ranks)) {
  windows_ = base + front_bytes(ranks, sizeof(Issued) * static_cast<std::size_t>(ranks));
  left_ = reinterpret_cast<std::atomic<std::uint32_t>*>(base);
  base += kLine;
  lines_ = reinterpret_cast<LaneLine*>(base);
  base += lines_bytes(ranks);
  pairs_ = reinterpret_cast<PairLine*>(base);
  base += pairs_bytes(ranks);
  issued_ = reinterpret_cast<Issued*>(base);
  base += sizeof(Issued) * static_cast<std::size_t>(ranks);
  blocks_ = reinterpret_cast<OfferedBlock*>(base);
  base += blocks_bytes(ranks);
  slots_ = reinterpret_cast<SlotLine*>(base);
}

void Channel::record_issued(int rank, const Descriptor& descriptor) const noexcept {
  Issued& issued = issued_[rank];
  IssuedEntry& entry = issued.entries[descriptor.sequence % kIssuedEntries];
  entry.sequence_plus_one.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  entry.kind.store(descriptor.kind(), std::memory_order_relaxed);
  entry.count.store(descriptor.count, std::memory_order_relaxed);
  std::array<std::uint64_t, 4> name;
  std::memcpy(name.data(), descriptor.name.data(), sizeof name);
  entry.name[0].store(name[0], std::memory_order_relaxed);
  if (name[0] != 0) {
    for (std::size_t i = 1; i < name.size(); ++i) entry.name[i].store(name[i], std::memory_order_relaxed);
  }
  entry.sequence_plus_one.store(descriptor.sequence + 1, std::memory_order_release);
  issued.count.store(descriptor.sequence + 1, std::memory_order_release);
}

bool Channel::issued(int rank, std::uint64_t sequence, Descriptor& descriptor) const noexcept {
  const IssuedEntry& entry = issued_[rank].entries[sequence % kIssuedEntries];
  if (entry.sequence_plus_one.load(std::memory_order_acquire) != sequence + 1) return false;
  descriptor.set_kind(entry.kind.load(std::memory_order_relaxed));
  descriptor.count = entry.count.load(std::memory_order_relaxed);
  descriptor.sequence = sequence;
  std::array<std::uint64_t, 4> name{};
  name[0] = entry.name[0].load(std::memory_order_relaxed);
  for (std::size_t i = 1; name[0] != 0 && i < name.size(); ++i) name[i] = entry.name[i].load(std::memory_order_relaxed);
  std::memcpy(descriptor.name.data(), name.data(), sizeof name);
  std::atomic_thread_fence(std::memory_order_acquire);
  return entry.sequence_plus_one.load(std::memory_order_relaxed) == sequence + 1;
}

std::uint64_t Channel::issued_count(int rank) const noexcept {
  return issued_[rank].count.load(std::memory_order_acquire);
}

}  // namespace lockstep::comm
