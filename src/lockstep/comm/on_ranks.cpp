#include "lockstep/comm/on_ranks.h"

#include <gtest/gtest.h>

#include "lockstep/comm/all_ranks.h"
#include "lockstep/comm/hier_group.h"
#include "lockstep/comm/memory_wire.h"
#include "lockstep/comm/runtime.h"
#include "lockstep/comm/thread_ranks.h"
#include "lockstep/comm/world.h"

namespace lockstep::comm::testing {
namespace {

Runtime& runtime() {
  static Runtime instance(0, nullptr);
  return instance;
}

}  // namespace

bool launched() {
  static const bool result = detect_world() != "self";
  return result;
}

std::ostream& operator<<(std::ostream& out, const Ranks& ranks) {
  out << ranks.count << (ranks.private_buffers ? " private" : "");
  if (!ranks.hosts.empty()) out << " on hosts";
  for (const int host : ranks.hosts) out << ' ' << host;
  return out;
}

std::vector<Ranks> cases() {
  if (launched()) return {{runtime().size()}};
  return {{1},
          {2},
          {3},
          {4},
          {8},
          {2, true},
          {3, true},
          {2, false, {0, 1}},
          {5, false, {0, 0, 1, 1, 1}},
          {6, false, {0, 1, 2, 0, 1, 0}},
          {8, false, {0, 0, 1, 1, 2, 2, 3, 3}}};
}

namespace {

/// What a control channel would have told, read straight from the other hosts' pages.
class PretendedStatus final : public RemoteStatus {
 public:
  PretendedStatus(const HostMap& map, const std::vector<std::shared_ptr<Segment>>& segments)
      : map_(map), segments_(segments) {}

  std::string elsewhere(int rank) const override {
    return waits(page(rank)) ? "" : describe_place(page(rank), monotonic_ns());
  }

 private:
  const StatusPage& page(int rank) const {
    const auto index = static_cast<std::size_t>(rank);
    return segments_[static_cast<std::size_t>(map_.host_of[index])]->status(map_.index_of[index]);
  }
  const HostMap& map_;
  const std::vector<std::shared_ptr<Segment>>& segments_;
};

/// Each host has a segment of its own; only the wire connects them.
void on_hosts(const Ranks& ranks_on_hosts, const std::function<void(Communicator&)>& body) {
  const std::vector<int>& hosts = ranks_on_hosts.hosts;
  const HostMap map = HostMap::from(hosts);
  const auto hub = MemoryWire::make_hub();
  const std::vector<int> world_ranks = all_ranks(ranks_on_hosts.count);
  std::vector<std::shared_ptr<Segment>> segments;
  for (const auto& ranks : map.ranks) segments.push_back(Segment::for_threads(static_cast<int>(ranks.size())));

  const auto remote = std::make_shared<PretendedStatus>(map, segments);

  std::vector<ThreadPlace> places;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    places.push_back({segments[static_cast<std::size_t>(map.host_of[rank])], map.index_of[rank]});
  }
  run_as_threads(places, [&](int rank) {
    const auto host = static_cast<std::size_t>(map.host_of[static_cast<std::size_t>(rank)]);
    const int index = map.index_of[static_cast<std::size_t>(rank)];
    const auto endpoint = std::make_shared<Endpoint>(
        segments[host], index, EndpointOptions{rank, map.ranks[host], ranks_on_hosts.timeout_s, {}, false});
    Communicator world(
        endpoint, std::make_unique<HierGroup>("hier", std::make_shared<MemoryWire>(hub, rank), 1,
                                              std::make_unique<HostGroup>(endpoint), rank, world_ranks, hosts, remote));
    body(world);
    segments[host]->status(index).phase = static_cast<std::uint32_t>(RankPhase::Left);
    world.barrier(kEndOfRun);
  });
}

}  // namespace

void on_ranks(const Ranks& ranks, const std::function<void(Communicator&)>& body) {
  if (!launched()) {
    if (!ranks.hosts.empty())
      on_hosts(ranks, body);
    else
      run_ranks(ranks.count, body, {.timeout_s = ranks.timeout_s, .private_buffers = ranks.private_buffers});
    return;
  }
  ASSERT_EQ(ranks.count, runtime().size());
  body(runtime().world());
  runtime().world().barrier("end of test");
}

}  // namespace lockstep::comm::testing
