#include "lockstep/comm/channel.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "lockstep/core/hash.h"

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
std::size_t offsets_bytes(int ranks) {
  return (sizeof(std::uint64_t) * kLanes * static_cast<std::size_t>(ranks) * ranks + kLine - 1) / kLine * kLine;
}
std::size_t slots_bytes(int ranks) {
  return sizeof(SlotLine) * slot_lines(ranks) * 2 * static_cast<std::size_t>(ranks) * ranks;
}

constexpr std::size_t kPage = 4096;

// Everything before the windows, which start on a page of their own.
std::size_t front_bytes(int ranks, std::size_t issued_bytes) {
  const std::size_t bytes = kLine + lines_bytes(ranks) + pairs_bytes(ranks) + issued_bytes + offsets_bytes(ranks) + slots_bytes(ranks);
  return (bytes + kPage - 1) / kPage * kPage;
}

}  // namespace

std::uint32_t Descriptor::fingerprint() const noexcept {
  std::uint64_t mixed = static_cast<std::uint64_t>(collective) | static_cast<std::uint64_t>(type) << 8 |
                        static_cast<std::uint64_t>(op) << 16 | static_cast<std::uint64_t>(static_cast<std::uint16_t>(root)) << 24;
  mixed = (mixed ^ static_cast<std::uint64_t>(count) * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;
  mixed = (mixed ^ (mixed >> 32) ^ sequence) * 0xc4ceb9fe1a85ec53u;
  if (name[0] != 0) mixed ^= hash64(name.data(), name.size());
  return static_cast<std::uint32_t>(mixed ^ (mixed >> 32)) | 1u;
}

std::string Descriptor::text() const {
  std::string result = name_of(collective);
  if (collective != Collective::Barrier) {
    result += fmt::format("({}[{}]", name_of(type), count);
    const bool reduces = collective == Collective::AllReduce || collective == Collective::ReduceScatter ||
                         collective == Collective::Reduce;
    if (reduces) result += fmt::format(", {}", name_of(op));
    if (root >= 0) result += fmt::format(", {} {}", collective == Collective::Send ? "to" : collective == Collective::Recv ? "from" : "root", root);
    if (name[0] != 0) result += fmt::format(", '{}'", name.data());
    result += ')';
  }
  return result + fmt::format(" #{}", sequence);
}

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
  offsets_ = reinterpret_cast<std::uint64_t*>(base);
  base += offsets_bytes(ranks);
  slots_ = reinterpret_cast<SlotLine*>(base);
}

void Channel::record_issued(int rank, const Descriptor& descriptor) const noexcept {
  std::array<std::uint64_t, 7> words{};
  std::memcpy(words.data(), &descriptor, sizeof descriptor);
  Issued& issued = issued_[rank];
  IssuedEntry& entry = issued.entries[descriptor.sequence % kIssuedEntries];
  entry.sequence_plus_one.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  for (std::size_t i = 0; i < words.size(); ++i) entry.words[i].store(words[i], std::memory_order_relaxed);
  entry.sequence_plus_one.store(descriptor.sequence + 1, std::memory_order_release);
  issued.count.store(descriptor.sequence + 1, std::memory_order_release);
}

bool Channel::issued(int rank, std::uint64_t sequence, Descriptor& descriptor) const noexcept {
  const IssuedEntry& entry = issued_[rank].entries[sequence % kIssuedEntries];
  if (entry.sequence_plus_one.load(std::memory_order_acquire) != sequence + 1) return false;
  std::array<std::uint64_t, 7> words;
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = entry.words[i].load(std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (entry.sequence_plus_one.load(std::memory_order_relaxed) != sequence + 1) return false;
  std::memcpy(static_cast<void*>(&descriptor), words.data(), sizeof descriptor);
  return true;
}

std::uint64_t Channel::issued_count(int rank) const noexcept {
  return issued_[rank].count.load(std::memory_order_acquire);
}

}  // namespace lockstep::comm
