#include "lockstep/comm/channel.h"

#include <cstring>
#include <memory>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::comm {
namespace {

Descriptor all_reduce(std::int64_t count, std::uint64_t sequence, const char* name = "") {
  Descriptor descriptor;
  descriptor.collective = Collective::AllReduce;
  descriptor.type = c10::ScalarType::Float;
  descriptor.count = count;
  descriptor.sequence = sequence;
  std::strncpy(descriptor.name.data(), name, descriptor.name.size() - 1);
  return descriptor;
}

TEST(Descriptor, SaysWhatWasCalled) {
  EXPECT_EQ(all_reduce(1000, 17, "grads").text(), "all_reduce(float32[1000], sum, 'grads') #17");
  EXPECT_EQ(all_reduce(0, 0).text(), "all_reduce(float32[0], sum) #0");
  EXPECT_EQ(Descriptor{}.text(), "barrier #0");

  Descriptor other = all_reduce(5, 3);
  other.type = c10::ScalarType::BFloat16;
  other.op = ReduceOp::Avg;
  EXPECT_EQ(other.text(), "all_reduce(bfloat16[5], avg) #3");
  other.collective = Collective::Reduce;
  other.root = 2;
  EXPECT_EQ(other.text(), "reduce(bfloat16[5], avg, root 2) #3");
  other.collective = Collective::Broadcast;
  EXPECT_EQ(other.text(), "broadcast(bfloat16[5], root 2) #3");
  other.collective = Collective::Send;
  EXPECT_EQ(other.text(), "send(bfloat16[5], to 2) #3");
  other.collective = Collective::Recv;
  EXPECT_EQ(other.text(), "recv(bfloat16[5], from 2) #3");
  other.root = -1;
  other.collective = Collective::AllGather;
  EXPECT_EQ(other.text(), "all_gather(bfloat16[5]) #3");
}

TEST(Descriptor, KeepsThe31FirstCharactersOfAName) {
  const std::string name(40, 'n');
  EXPECT_EQ(all_reduce(1, 0, name.c_str()).text(), "all_reduce(float32[1], sum, '" + std::string(31, 'n') + "') #0");
}

TEST(Descriptor, FingerprintDependsOnEveryField) {
  std::vector<Descriptor> all(8, all_reduce(1000, 17, "grads"));
  all[1].collective = Collective::Reduce;
  all[2].type = c10::ScalarType::Half;
  all[3].op = ReduceOp::Max;
  all[4].root = 0;
  all[5].count = 1001;
  all[6].sequence = 18;
  all[7].name[0] = 'G';
  std::set<std::uint32_t> fingerprints;
  for (const auto& descriptor : all) fingerprints.insert(descriptor.fingerprint());
  EXPECT_EQ(fingerprints.size(), all.size());
  EXPECT_EQ(all[0].fingerprint(), all_reduce(1000, 17, "grads").fingerprint());
}

TEST(Descriptor, FingerprintIsNeverZeroAndSeldomTheSame) {
  std::set<std::uint32_t> fingerprints;
  constexpr int kMany = 10'000;
  for (int i = 0; i < kMany; ++i) {
    fingerprints.insert(all_reduce(i, 0).fingerprint());
    fingerprints.insert(all_reduce(1, static_cast<std::uint64_t>(i) + 1).fingerprint());
  }
  EXPECT_EQ(fingerprints.count(0), 0U);
  EXPECT_GT(fingerprints.size(), 2U * kMany - 10U);
}

class ChannelOf3 : public ::testing::Test {
 protected:
  static constexpr int kRanks = 3;
  // All zero is a valid start.
  std::unique_ptr<std::byte, void (*)(void*)> memory{
      static_cast<std::byte*>(std::memset(std::aligned_alloc(4096, bytes()), 0, bytes())), std::free};
  Channel channel{memory.get(), kRanks};

  static std::size_t bytes() { return (channel_bytes(kRanks) + 4095) / 4096 * 4096; }
};

TEST_F(ChannelOf3, RemembersWhatEachRankIssued) {
  Descriptor found;
  EXPECT_FALSE(channel.issued(1, 0, found));
  EXPECT_EQ(channel.issued_count(1), 0U);
  Descriptor mine = all_reduce(1000, 0, "a name of several words, cut");
  mine.root = -1;
  channel.record_issued(1, mine);
  ASSERT_TRUE(channel.issued(1, 0, found));
  EXPECT_EQ(found.text(), mine.text());
  EXPECT_EQ(found.fingerprint(), mine.fingerprint());
  EXPECT_EQ(channel.issued_count(1), 1U);
  EXPECT_FALSE(channel.issued(0, 0, found)) << "another rank";
  EXPECT_FALSE(channel.issued(1, 1, found)) << "not yet";
}

TEST_F(ChannelOf3, ForgetsWhatWasIssuedLongAgo) {
  for (std::uint64_t sequence = 0; sequence <= Channel::kIssuedEntries; ++sequence) {
    channel.record_issued(2, all_reduce(5, sequence, sequence % 2 == 0 ? "even" : ""));
  }
  Descriptor found;
  EXPECT_FALSE(channel.issued(2, 0, found));
  ASSERT_TRUE(channel.issued(2, 1, found));
  EXPECT_EQ(found.name[0], 0) << "the name of the one before";
  EXPECT_TRUE(channel.issued(2, Channel::kIssuedEntries, found));
  EXPECT_EQ(channel.issued_count(2), Channel::kIssuedEntries + 1);
}

TEST_F(ChannelOf3, PartsDoNotOverlap) {
  // Fill every part with its own byte, then look whether each still has it.
  std::vector<std::pair<std::byte*, std::size_t>> parts;
  for (const auto lane : {Lane::Urgent, Lane::Bulk}) {
    for (int rank = 0; rank < kRanks; ++rank) {
      parts.emplace_back(reinterpret_cast<std::byte*>(&channel.line(lane, rank)), sizeof(LaneLine));
      parts.emplace_back(reinterpret_cast<std::byte*>(channel.blocks(lane, rank)), sizeof(OfferedBlock) * kRanks);
      for (const std::uint64_t parity : {0U, 1U}) {
        parts.emplace_back(channel.window(lane, rank, parity), Channel::kWindowBytes);
      }
    }
  }
  for (int to = 0; to < kRanks; ++to) {
    for (int from = 0; from < kRanks; ++from) {
      parts.emplace_back(reinterpret_cast<std::byte*>(&channel.pair(from, to)), sizeof(PairLine));
      for (const std::uint64_t parity : {0U, 1U}) {
        parts.emplace_back(reinterpret_cast<std::byte*>(channel.slot(to, from, parity)),
                           sizeof(SlotLine) + channel.slot_payload());
      }
    }
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::memset(static_cast<void*>(parts[i].first), static_cast<int>(i + 1), parts[i].second);
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto [begin, size] = parts[i];
    EXPECT_GE(begin, memory.get());
    EXPECT_LE(begin + size, memory.get() + channel_bytes(kRanks));
    for (const std::size_t at : {std::size_t{0}, size / 2, size - 1}) EXPECT_EQ(begin[at], std::byte(i + 1)) << i;
  }
}

}  // namespace
}  // namespace lockstep::comm
