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

std::uint64_t kind_of(const Descriptor& descriptor) noexcept {
  return static_cast<std::uint64_t>(descriptor.collective) | static_cast<std::uint64_t>(descriptor.type) << 8 |
         static_cast<std::uint64_t>(descriptor.op) << 16 |
         static_cast<std::uint64_t>(static_cast<std::uint16_t>(descriptor.root)) << 24 |
         static_cast<std::uint64_t>(descriptor.lane) << 40;
}

constexpr std::size_t kPage = 4096;

// Everything before the windows, which start on a page of their own.
std::size_t front_bytes(int ranks, std::size_t issued_bytes) {
  const std::size_t bytes =
      kLine + lines_bytes(ranks) + pairs_bytes(ranks) + issued_bytes + offsets_bytes(ranks) + slots_bytes(ranks);
  return (bytes + kPage - 1) / kPage * kPage;
}

}  // namespace

std::uint32_t Descriptor::fingerprint() const noexcept {
  std::uint64_t mixed = kind_of(*this);
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
    if (root >= 0 && collective == Collective::AllReduce)
      result += fmt::format(", {} shards", root);
    else if (root >= 0)
      result += fmt::format(", {} {}",
                            collective == Collective::Send   ? "to"
                            : collective == Collective::Recv ? "from"
                                                             : "root",
                            root);
    if (name[0] != 0) result += fmt::format(", '{}'", name.data());
    result += ')';
  }
  return result + fmt::format(" #{}", sequence);
}

bool Descriptor::ends_run() const noexcept {
  return collective == Collective::Barrier && std::strncmp(name.data(), kEndOfRun, name.size()) == 0;
}

std::string describe_disagreement(int my_rank, const Descriptor& mine, int their_rank, const Descriptor* theirs) {
  const auto ended = [](int who, int other, const Descriptor& waits) {
    return fmt::format("rank {} has ended, but rank {} waits for it in {}", who, other, waits.text());
  };
  if (theirs != nullptr && theirs->ends_run()) return ended(their_rank, my_rank, mine);
  if (theirs != nullptr && mine.ends_run()) return ended(my_rank, their_rank, *theirs);
  std::string my_text = mine.text(), their_text = theirs != nullptr ? theirs->text() : "something else at that point";
  if (my_text == their_text) {
    my_text += fmt::format(" in lane {}", name_of(mine.lane));
    their_text += fmt::format(" in lane {}", name_of(theirs->lane));
  }
  return fmt::format(
      "rank {} called {} but rank {} called {}; all ranks must call the same collectives in the same order", my_rank,
      my_text, their_rank, their_text);
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
  Issued& issued = issued_[rank];
  IssuedEntry& entry = issued.entries[descriptor.sequence % kIssuedEntries];
  entry.sequence_plus_one.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  entry.kind.store(kind_of(descriptor), std::memory_order_relaxed);
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
  const std::uint64_t kind = entry.kind.load(std::memory_order_relaxed);
  descriptor.collective = static_cast<Collective>(kind & 0xff);
  descriptor.type = static_cast<c10::ScalarType>(kind >> 8 & 0xff);
  descriptor.op = static_cast<ReduceOp>(kind >> 16 & 0xff);
  descriptor.root = static_cast<std::int16_t>(kind >> 24 & 0xffff);
  descriptor.lane = static_cast<Lane>(kind >> 40 & 0xff);
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
