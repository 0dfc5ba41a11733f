#include "lockstep/comm/hier_group.h"

#include <algorithm>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "lockstep/comm/copy_bytes.h"
#include "lockstep/comm/wire_messages.h"

namespace lockstep::comm {
namespace {

constexpr std::int64_t kPatience_ns = 1'000'000'000;

}  // namespace

HostMap HostMap::from(const std::vector<int>& host_ids) {
  HostMap map;
  std::map<int, int> number_of;
  for (int rank = 0; rank < static_cast<int>(host_ids.size()); ++rank) {
    const auto [found, added] = number_of.try_emplace(host_ids[static_cast<std::size_t>(rank)], map.hosts());
    if (added) map.ranks.emplace_back();
    auto& ranks = map.ranks[static_cast<std::size_t>(found->second)];
    map.host_of.push_back(found->second);
    map.index_of.push_back(static_cast<int>(ranks.size()));
    ranks.push_back(rank);
  }
  return map;
}

HierGroup::HierGroup(const char* name, std::shared_ptr<Wire> wire, int wire_group, std::unique_ptr<HostGroup> local,
                     int rank, std::vector<int> world_ranks, std::vector<int> host_ids,
                     std::shared_ptr<const RemoteStatus> remote)
    : name_(name),
      wire_(std::move(wire)),
      wire_group_(wire_group),
      local_(std::move(local)),
      rank_(rank),
      size_(static_cast<int>(world_ranks.size())),
      world_ranks_(std::move(world_ranks)),
      host_ids_(std::move(host_ids)),
      remote_(std::move(remote)),
      map_(HostMap::from(host_ids_)) {
  wire_->group_numbers().take(wire_group_);
  for (int host = 0; host < map_.hosts(); ++host) {
    std::vector<bool> held(static_cast<std::size_t>(size_));
    for (const int member : ranks_on(host)) held[static_cast<std::size_t>(member)] = true;
    nodes_.push_back(covering_nodes(held));
  }
  for (int owner = 0; owner < size_; ++owner) {
    if (host_of(owner) != my_host() && partner(my_host(), owner) == rank_) clients_.push_back(owner);
  }
}

int HierGroup::partner(int host, int owner) const noexcept {
  const auto& ranks = ranks_on(host);
  return ranks[static_cast<std::size_t>(map_.index_of[static_cast<std::size_t>(owner)]) % ranks.size()];
}

// Other threads may make groups from other communicators of the same ranks meanwhile: what
// one rank could not take is nobody's.
int HierGroup::new_wire_group(const Exchange& exchange) {
  for (;;) {
    int number = 0;
    for (const auto& text : exchange(std::to_string(wire_->group_numbers().next())))
      number = std::max(number, std::stoi(text));
    const auto taken = exchange(wire_->group_numbers().take(number) ? "yes" : "no");
    if (std::count(taken.begin(), taken.end(), "yes") == size_) return number;
  }
}

std::unique_ptr<Backend> HierGroup::subgroup(const std::vector<int>& members, const Exchange& exchange) {
  const int wire_group = new_wire_group(exchange);
  std::vector<int> on_host;  // of the members, by rank on the host
  std::vector<int> world_ranks, host_ids;
  int rank = -1;
  for (const int member : members) {
    if (member == rank_) rank = static_cast<int>(world_ranks.size());
    world_ranks.push_back(world_rank(member));
    host_ids.push_back(host_ids_[static_cast<std::size_t>(member)]);
    if (host_of(member) == my_host()) on_host.push_back(map_.index_of[static_cast<std::size_t>(member)]);
  }
  // The local group asks its host's ranks only, but every rank of the whole group answers.
  const auto local_exchange = [&](const std::string& bytes) {
    const auto all = exchange(bytes);
    std::vector<std::string> here;
    for (const int member : ranks_on(my_host())) here.push_back(all[static_cast<std::size_t>(member)]);
    return here;
  };
  auto local = local_->subgroup(on_host, local_exchange);
  if (members.empty()) return nullptr;
  return std::make_unique<HierGroup>(name_, wire_, wire_group,
                                     std::unique_ptr<HostGroup>(static_cast<HostGroup*>(local.release())), rank,
                                     std::move(world_ranks), std::move(host_ids), remote_);
}

// ---- agreeing ----------------------------------------------------------------------------------

void HierGroup::compare(int peer, const Descriptor& mine, const Descriptor& theirs) const {
  if (theirs.fingerprint() == mine.fingerprint()) return;
  local_->endpoint().fail_for_all(describe_disagreement(world_rank(rank_), mine, world_rank(peer), &theirs));
}

// The leaders of all hosts tell each other what they perform. The ranks of a host
// compare among themselves.
Task HierGroup::agree(const Request& request) {
  if (!leads() || map_.hosts() == 1) co_return;
  const auto channel = Wire::channel_of(request.lane);
  auto mine = std::make_shared<Descriptor>(request.descriptor);
  auto theirs = std::make_shared<std::vector<Descriptor>>(static_cast<std::size_t>(map_.hosts()));
  WireMessages messages;
  for (int host = 0; host < map_.hosts(); ++host) {
    if (host == my_host()) continue;
    const int leader = world_rank(ranks_on(host).front());
    messages.add(wire_->receive(wire_group_, channel, leader, &(*theirs)[static_cast<std::size_t>(host)],
                                sizeof(Descriptor), theirs));
    messages.add(wire_->send(wire_group_, channel, leader, mine.get(), sizeof(Descriptor), mine));
  }
  co_await messages.arrived();
  for (int host = 0; host < map_.hosts(); ++host) {
    if (host == my_host()) continue;
    const Descriptor& other = (*theirs)[static_cast<std::size_t>(host)];
    // Who is ahead knows what it called when the other called this, and tells.
    const std::int64_t until = monotonic_ns() + kPatience_ns;
    if (other.sequence > mine->sequence) co_await polled([until] { return monotonic_ns() > until; });
    Descriptor ours = *mine;
    if (other.sequence < mine->sequence) local_->channel().issued(local_->rank(), other.sequence, ours);
    compare(ranks_on(host).front(), ours, other);
  }
}

// A leader that waits tells the other leaders in what, on a channel of its own: hosts
// that disagree may wait in different lanes and would never meet.
void HierGroup::examine(const Operation& operation) {
  const Descriptor& mine = operation.request.descriptor;
  local_->examine(operation, peer_of_message(mine));
  if (!leads() || mine.pairwise()) return;
  const std::lock_guard lock(reports_mutex_);
  const auto receive_next = [&](int host) {
    Report report{host, std::make_shared<Descriptor>(), nullptr};
    report.message = wire_->receive(wire_group_, Wire::kControl, world_rank(ranks_on(host).front()),
                                    report.descriptor.get(), sizeof(Descriptor), report.descriptor);
    return report;
  };
  if (reports_.empty()) {
    for (int host = 0; host < map_.hosts(); ++host) {
      if (host != my_host()) reports_.push_back(receive_next(host));
    }
  }
  if (reported_ <= mine.sequence) {
    reported_ = mine.sequence + 1;
    const auto sent = std::make_shared<Descriptor>(mine);
    for (const auto& report : reports_) {
      sent_reports_.push_back(wire_->send(wire_group_, Wire::kControl, world_rank(ranks_on(report.host).front()),
                                          sent.get(), sizeof(Descriptor), sent));
    }
  }
  std::erase_if(sent_reports_, [](const auto& message) { return message->done(); });
  for (auto& report : reports_) {
    while (report.message->done()) {
      const Descriptor theirs = *report.descriptor;
      const int leader = ranks_on(report.host).front();
      Descriptor issued;
      if (local_->channel().issued(local_->rank(), theirs.sequence, issued)) compare(leader, issued, theirs);
      report = receive_next(report.host);
    }
  }
}

std::string HierGroup::absentees(const Operation& operation) {
  const Descriptor& mine = operation.request.descriptor;
  std::string who = local_->absentees(operation, peer_of_message(mine));
  for (int rank = 0; remote_ && rank < size_; ++rank) {
    if (host_of(rank) == my_host() || (mine.pairwise() && rank != mine.root)) continue;
    const std::string place = remote_->elsewhere(world_rank(rank));
    if (!place.empty())
      who += fmt::format("{}rank {} on another host is missing, {}", who.empty() ? "" : "; ", world_rank(rank), place);
  }
  return who;
}

// ---- meeting on the host --------------------------------------------------------------------------

std::int64_t HierGroup::piece_of(std::size_t element_bytes) const noexcept {
  return static_cast<std::int64_t>(std::max(local_->endpoint().tuning().piece_bytes / element_bytes, std::size_t{1}));
}

Task HierGroup::copy(std::byte* to, const std::byte* from, std::size_t bytes) const {
  const auto piece = static_cast<std::size_t>(piece_of(1));
  // As memmove does: from the end, where that is what is overwritten last.
  const bool backwards = std::less<const std::byte*>()(from, to);
  for (std::size_t done = 0; done < bytes; done += piece) {
    if (done > 0) co_await Breathe{};
    const std::size_t now = std::min(piece, bytes - done);
    const std::size_t at = backwards ? bytes - done - now : done;
    copy_bytes(to + at, from + at, now);
  }
}

Task HierGroup::open(const Request& request, const void* input, const void* output) {
  const Endpoint& endpoint = local_->endpoint();
  local_->announce(request.lane, request.descriptor.fingerprint(),
                   local_size() == 1 ? reinterpret_cast<std::uint64_t>(input) : endpoint.address_of(input), 0,
                   local_size() == 1 ? reinterpret_cast<std::uint64_t>(output) : endpoint.address_of(output));
  co_await local_->everyone_here(request.lane);
  local_->check_announcements(request);
}

Task HierGroup::close(const Request& request) {
  local_->arrive(request.lane);
  co_await local_->everyone_here(request.lane);
}

std::byte* HierGroup::input_of(Lane lane, int local_rank) const noexcept {
  const std::uint64_t address = local_->announcement(lane, local_rank).buffer;
  return local_size() == 1 ? reinterpret_cast<std::byte*>(address) : local_->endpoint().pointer_at(address);
}

std::byte* HierGroup::output_of(Lane lane, int local_rank) const noexcept {
  const std::uint64_t address = local_->announcement(lane, local_rank).output;
  return local_size() == 1 ? reinterpret_cast<std::byte*>(address) : local_->endpoint().pointer_at(address);
}

Task HierGroup::run(const Request& request) {
  if (request.descriptor.pairwise() && host_of(request.descriptor.root) == my_host()) return message_on_host(request);
  switch (request.descriptor.collective) {
    case Collective::AllReduce:
    case Collective::Reduce:
    case Collective::ReduceScatter:
    case Collective::ReduceUpdate: return reduce(request);
    case Collective::Broadcast: return broadcast(request);
    case Collective::AllGather: return all_gather(request);
    case Collective::Send: return send(request);
    case Collective::Recv: return receive(request);
    default: return exchange_blocks(request);
  }
}

}  // namespace lockstep::comm
