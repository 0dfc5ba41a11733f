#include "lockstep/comm/descriptor.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include <fmt/format.h>

#include "lockstep/core/hash.h"

namespace lockstep::comm {

void Descriptor::set_name(const char* text) noexcept {
  if (text != nullptr) std::strncpy(name.data(), text, name.size() - 1);
}

std::uint64_t Descriptor::kind() const noexcept {
  return static_cast<std::uint64_t>(collective) | static_cast<std::uint64_t>(type) << 8 |
         static_cast<std::uint64_t>(op) << 16 | static_cast<std::uint64_t>(static_cast<std::uint16_t>(root)) << 24 |
         static_cast<std::uint64_t>(lane) << 40 | static_cast<std::uint64_t>(blocks) << 48;
}

void Descriptor::set_kind(std::uint64_t kind) noexcept {
  collective = static_cast<Collective>(kind & 0xff);
  type = static_cast<c10::ScalarType>(kind >> 8 & 0xff);
  op = static_cast<ReduceOp>(kind >> 16 & 0xff);
  root = static_cast<std::int16_t>(kind >> 24 & 0xffff);
  lane = static_cast<Lane>(kind >> 40 & 0xff);
  blocks = static_cast<std::uint16_t>(kind >> 48);
}

std::uint16_t hash_of_blocks(std::span<const std::int64_t> counts) noexcept {
  if (std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) == counts.end()) return 0;
  return static_cast<std::uint16_t>(hash64(counts.data(), counts.size_bytes())) | 1;
}

std::uint32_t Descriptor::fingerprint() const noexcept {
  std::uint64_t mixed = kind();
  mixed = (mixed ^ static_cast<std::uint64_t>(count) * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;
  mixed = (mixed ^ (mixed >> 32) ^ sequence) * 0xc4ceb9fe1a85ec53u;
  if (name[0] != 0) mixed ^= hash64(name.data(), name.size());
  return static_cast<std::uint32_t>(mixed ^ (mixed >> 32)) | 1u;
}

std::string Descriptor::text() const {
  std::string result = name_of(collective);
  if (collective != Collective::Barrier) {
    result += fmt::format("({}", name_of(type));
    if (collective != Collective::AllToAll || count > 0) result += fmt::format("[{}]", count);
    const bool reduces = collective == Collective::AllReduce || collective == Collective::ReduceScatter ||
                         collective == Collective::ReduceUpdate || collective == Collective::Reduce;
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
  if (my_text == their_text && mine.blocks != theirs->blocks) {
    return fmt::format(
        "rank {} and rank {} both called {}, with other counts of the blocks; pass the same counts, or tensors of the "
        "same "
        "sizes, on all ranks",
        my_rank, their_rank, my_text);
  }
  if (my_text == their_text) {
    my_text += fmt::format(" in lane {}", name_of(mine.lane));
    their_text += fmt::format(" in lane {}", name_of(theirs->lane));
  }
  return fmt::format(
      "rank {} called {} but rank {} called {}; all ranks must call the same collectives in the same order", my_rank,
      my_text, their_rank, their_text);
}

std::string describe_mismatch(int receiver, MessageSize expected, int sender, MessageSize sent) {
  return fmt::format("rank {} receives {}[{}] but rank {} sent {}[{}]", receiver, name_of(expected.type),
                     expected.count, sender, name_of(sent.type), sent.count);
}

}  // namespace lockstep::comm
