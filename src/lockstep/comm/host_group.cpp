#include "lockstep/comm/host_group.h"

#include <sched.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "lockstep/comm/all_ranks.h"
#include "lockstep/comm/slot_exchange.h"

namespace lockstep::comm {

HostGroup::HostGroup(std::shared_ptr<Endpoint> endpoint)
    : HostGroup(endpoint, all_ranks(endpoint->segment().ranks()), endpoint->segment().world_channel(), nullptr) {}

HostGroup::HostGroup(std::shared_ptr<Endpoint> endpoint, std::vector<int> members, std::byte* channel,
                     std::shared_ptr<std::byte> owner)
    : endpoint_(std::move(endpoint)),
      members_(std::move(members)),
      rank_(static_cast<int>(std::find(members_.begin(), members_.end(), endpoint_->local_rank()) - members_.begin())),
      size_(static_cast<int>(members_.size())),
      channel_(channel, size_),
      owner_(std::move(owner)),
      exchanges_(members_.size()),
      pairs_(members_.size()),
      partial_(channel_.slot_payload()),
      slot_inputs_(members_.size()),
      parcels_(members_.size()) {}

HostGroup::~HostGroup() {
  for (int peer = 0; peer < size_; ++peer) {
    PairState& pair = pairs_[static_cast<std::size_t>(peer)];
    const bool read = channel_.pair(rank_, peer).taken.load(std::memory_order_acquire) >= pair.sent;
    if (pair.windows && !read) endpoint_->outlive(std::move(pair.windows));
  }
  channel_.left().fetch_add(1);
  if (owner_) endpoint_->bury(std::move(owner_), size_);
}

std::unique_ptr<Backend> HostGroup::subgroup(const std::vector<int>& members, const Exchange& exchange) {
  const bool leads = !members.empty() && members.front() == rank_;
  std::shared_ptr<std::byte> memory;
  std::uint64_t address = 0;
  if (leads) {
    memory = endpoint_->allocate_zeroed(channel_bytes(static_cast<int>(members.size())));
    address = endpoint_->address_of(memory.get());
  }
  std::vector<std::string> addresses;
  try {
    addresses = exchange(std::string(reinterpret_cast<const char*>(&address), sizeof address));
  } catch (...) {
    if (memory) endpoint_->outlive(std::move(memory));  // others may have its address, and meet there
    throw;
  }
  if (members.empty()) return nullptr;
  std::memcpy(&address, addresses[static_cast<std::size_t>(members.front())].data(), sizeof address);
  std::vector<int> on_host;
  for (const int member : members) on_host.push_back(members_[static_cast<std::size_t>(member)]);
  return std::make_unique<HostGroup>(endpoint_, std::move(on_host), endpoint_->pointer_at(address), std::move(memory));
}

// ---- meeting -------------------------------------------------------------------------

bool HostGroup::all_arrived(Lane lane, std::uint64_t step) const noexcept {
  for (int peer = 0; peer < size_; ++peer) {
    if (line(lane, peer).step.load(std::memory_order_acquire) < step) return false;
  }
  return true;
}

void HostGroup::arrive(Lane lane) {
  line(lane, rank_).step.store(++lanes_[static_cast<std::size_t>(lane)].step, std::memory_order_release);
  endpoint_->segment().notify();
}

void HostGroup::announce(Lane lane, std::uint32_t fingerprint, std::uint64_t buffer, std::uint64_t longest_block,
                         std::uint64_t output) {
  LaneState& state = lanes_[static_cast<std::size_t>(lane)];
  const std::uint64_t parity = ++state.operations & 1;
  line(lane, rank_).announcement[parity] = {fingerprint, buffer, longest_block, output};
  arrive(lane);
}

std::shared_ptr<std::byte> HostGroup::shared(const void* data, std::size_t bytes) const {
  auto* raw = static_cast<std::byte*>(const_cast<void*>(data));
  if (size_ == 1 || bytes == 0 || endpoint_->address_of_buffer(data) != 0) return {raw, [](std::byte*) {}};
  return endpoint_->allocate(bytes);
}

bool HostGroup::all_buffers_shared(Lane lane) const noexcept {
  for (int peer = 0; peer < size_; ++peer) {
    if (announcement(lane, peer).buffer == 0) return false;
  }
  return true;
}

void HostGroup::check_announcements(const Request& request) {
  const std::uint64_t mine = announcement(request.lane, rank_).fingerprint;
  for (int peer = 0; peer < size_; ++peer) {
    if (announcement(request.lane, peer).fingerprint != mine) fail_mismatch(peer, request.descriptor);
  }
}

Task HostGroup::run(const Request& request) {
  switch (request.descriptor.collective) {
    case Collective::Send: return send(request);
    case Collective::Recv: return receive(request);
    default: break;
  }
  if (fits_slots(request)) {
    const bool barrier = request.descriptor.collective == Collective::Barrier;
    if (!barrier && request.descriptor.collective != Collective::AllReduce) return run_in_slots(request);
    if (!doubles(request)) return barrier ? run_in_slots(request) : all_reduce_in_two_hops(request);
    return on_grid(request) ? all_reduce_on_grid(request) : all_reduce_by_doubling(request);
  }
  switch (request.descriptor.collective) {
    case Collective::AllReduce:
    case Collective::Reduce:
    case Collective::ReduceScatter: return reduce_in_place(request);
    case Collective::ReduceUpdate: return reduce_update(request);
    default: return move_in_place(request);
  }
}

// ---- when ranks disagree ---------------------------------------------------------------

void HostGroup::fail_mismatch(int peer, const Descriptor& mine) {
  // Where they first parted explains more than where they met. A rank may write down what
  // it calls only after it has sent: give it a moment.
  constexpr std::int64_t kMoment_ns = 200'000'000;
  Descriptor ours = mine, theirs;
  const std::int64_t until = monotonic_ns() + kMoment_ns;
  do {
    for (std::uint64_t back = std::min(mine.sequence, Channel::kIssuedEntries - 1) + 1; back-- > 0;) {
      const std::uint64_t sequence = mine.sequence - back;
      if (back > 0 && !channel_.issued(rank_, sequence, ours)) continue;
      if (back == 0) ours = mine;
      if (channel_.issued(peer, sequence, theirs) && ours.fingerprint() != theirs.fingerprint()) {
        endpoint_->fail_for_all(describe_disagreement(world_rank(rank_), ours, world_rank(peer), &theirs));
      }
    }
    sched_yield();
  } while (monotonic_ns() < until);
  endpoint_->fail_for_all(describe_disagreement(world_rank(rank_), mine, world_rank(peer), nullptr));
}

/// Whether `peer` has called what `operation` waits for; of a message, whether it has come.
bool HostGroup::called(int peer, const Operation& operation) const {
  const Descriptor& mine = operation.request.descriptor;
  if (!mine.pairwise()) return channel_.issued_count(peer) > mine.sequence;
  return operation.task_state.waiter == nullptr || operation.task_state.waiter->ready();
}

void HostGroup::examine(const Operation& operation, int peer_of_message) {
  const Descriptor& mine = operation.request.descriptor;
  for (int peer = 0; peer < size_; ++peer) {
    if (mine.pairwise() ? peer != peer_of_message : peer == rank_) continue;
    Descriptor theirs;
    if (!mine.pairwise() && channel_.issued(peer, mine.sequence, theirs) &&
        theirs.fingerprint() != mine.fingerprint()) {
      fail_mismatch(peer, mine);
    }
    // In this order: a rank that has left calls nothing any more. At the end of the run all leave.
    const auto phase =
        static_cast<RankPhase>(endpoint_->segment().status(members_[static_cast<std::size_t>(peer)]).phase.load());
    if (phase == RankPhase::Left && !called(peer, operation) && !mine.ends_run()) {
      endpoint_->fail_for_all(fmt::format("rank {} has ended, but rank {} waits for it in {}", world_rank(peer),
                                          world_rank(rank_), mine.text()));
    }
  }
}

std::string HostGroup::absentees(const Operation& operation, int peer_of_message) {
  const bool pairwise = operation.request.descriptor.pairwise();
  const std::int64_t now = monotonic_ns();
  std::string who;
  for (int peer = 0; peer < size_; ++peer) {
    if (pairwise ? peer != peer_of_message : peer == rank_) continue;
    const StatusPage& page = endpoint_->segment().status(members_[static_cast<std::size_t>(peer)]);
    const bool missing = !called(peer, operation);
    if (!missing && !seems_stopped(page, now)) continue;
    who += fmt::format("{}rank {} (process {}) {}, {}", who.empty() ? "" : "; ", world_rank(peer), page.pid.load(),
                       missing ? "is missing" : "does not go on", describe_place(page, now));
  }
  return who;
}

}  // namespace lockstep::comm
