// lockstep/comm/hier_group.h
//
// The back-ends `hier` and `mpi`: ranks on several hosts. Inside a host they share
// memory (a HostGroup), between hosts messages go over a Wire. Every rank owns a
// range of the data: on each other host one local rank, its partner, reduces that
// range over its host and sends the owner the result, gets the finished range back
// and stores it into every local buffer. So each rank carries a slice of the
// traffic, each byte leaves a host once per direction, and the sum follows the one
// tree: a host sends one partial result per largest node of the tree that it holds.
// `mpi` is the same with one rank per host.
//
//   bytes that leave a host in an all-reduce of n bytes over h hosts: 2 n (h-1)/h
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "lockstep/comm/backend.h"
#include "lockstep/comm/endpoint.h"
#include "lockstep/comm/host_group.h"
#include "lockstep/comm/wire.h"

namespace lockstep::comm {

/// What ranks on other hosts last said about themselves; kept true by the control channel.
class RemoteStatus {
 public:
  virtual ~RemoteStatus() = default;
  /// "in span 'x' for 3.1 s" if `world_rank` is known not to wait in a collective, else empty.
  virtual std::string elsewhere(int world_rank) const = 0;
};

/// Where the ranks of a group are.
struct HostMap {
  std::vector<int> host_of;             // by rank of the group
  std::vector<int> index_of;            // place among the group's ranks on that host
  std::vector<std::vector<int>> ranks;  // by host, then index

  /// Hosts are numbered by their first rank.
  static HostMap from(const std::vector<int>& host_ids);
  int hosts() const noexcept { return static_cast<int>(ranks.size()); }
};

class HierGroup final : public Backend {
 public:
  /// `local` is the group of this host's members; `world_ranks` and `host_ids` are by rank of
  /// the group. `wire_group` tells its messages from those of other groups, see Wire::group_numbers.
  HierGroup(const char* name, std::shared_ptr<Wire> wire, int wire_group, std::unique_ptr<HostGroup> local, int rank,
            std::vector<int> world_ranks, std::vector<int> host_ids, std::shared_ptr<const RemoteStatus> remote);

  const char* name() const noexcept override { return name_; }
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  int world_rank(int rank) const noexcept override { return world_ranks_[static_cast<std::size_t>(rank)]; }
  std::vector<Slice> owned(std::int64_t count, std::size_t element_bytes) const override;
  Task run(const Request& request) override;
  bool begin_at_once(const Request&) override { return false; }
  bool finish_at_once(const Request&, int) override { return false; }
  void issued(const Descriptor& descriptor) noexcept override { local_->issued(descriptor); }
  void examine(const Operation& operation) override;
  std::string absentees(const Operation& operation) override;
  std::unique_ptr<Backend> subgroup(const std::vector<int>& members, const Exchange& exchange) override;

 private:
  /// The other end of a message, as the local group numbers it; -1 if it is not on this host.
  int peer_of_message(const Descriptor& descriptor) const noexcept {
    const bool here = descriptor.pairwise() && host_of(descriptor.root) == my_host();
    return here ? map_.index_of[static_cast<std::size_t>(descriptor.root)] : -1;
  }
  int host_of(int rank) const noexcept { return map_.host_of[static_cast<std::size_t>(rank)]; }
  int my_host() const noexcept { return host_of(rank_); }
  const std::vector<int>& ranks_on(int host) const noexcept { return map_.ranks[static_cast<std::size_t>(host)]; }
  int local_size() const noexcept { return local_->size(); }
  bool leads() const noexcept { return local_->rank() == 0; }
  /// The rank on `host` that works for `owner`, a rank elsewhere.
  int partner(int host, int owner) const noexcept;
  /// The ranks elsewhere that this rank works for.
  const std::vector<int>& clients() const noexcept { return clients_; }

  /// A number for a new group that no group of any of the ranks has had.
  int new_wire_group(const Exchange& exchange);
  Task agree(const Request& request);
  Task reduce(const Request& request);
  /// What each rank owns of each piece that is reduced at a time.
  std::vector<std::vector<Slice>> ranges_of_pieces(std::int64_t count, std::size_t element_bytes) const;
  Task reduce_ranges(const Request& request, std::byte* output, const std::vector<Slice>& ranges);
  Task broadcast(const Request& request);
  Task all_gather(const Request& request);
  Task exchange_blocks(const Request& request);
  Task check_blocks(const Request& request, const std::vector<OfferedBlock>& out, const std::vector<OfferedBlock>& in);
  Task message_on_host(const Request& request);
  Task send(const Request& request);
  Task receive(const Request& request);
  /// Copies in pieces, between which other collectives have a turn. The ranges may overlap.
  Task copy(std::byte* to, const std::byte* from, std::size_t bytes) const;
  /// How many elements to work on between two turns of other collectives.
  std::int64_t piece_of(std::size_t element_bytes) const noexcept;
  Task open(const Request& request, const void* input, const void* output);
  Task close(const Request& request);
  std::byte* input_of(Lane lane, int local_rank) const noexcept;
  std::byte* output_of(Lane lane, int local_rank) const noexcept;
  void compare(int peer, const Descriptor& mine, const Descriptor& theirs) const;

  const char* name_;
  std::shared_ptr<Wire> wire_;
  int wire_group_;
  std::unique_ptr<HostGroup> local_;
  int rank_;
  int size_;
  std::vector<int> world_ranks_;
  std::vector<int> host_ids_;
  std::shared_ptr<const RemoteStatus> remote_;
  HostMap map_;
  std::vector<std::vector<TreeNode>> nodes_;  // by host: the largest nodes it holds
  std::vector<int> clients_;

  // Descriptors that other hosts' leaders sent while they waited, see examine().
  struct Report {
    int host;
    std::shared_ptr<Descriptor> descriptor;
    std::unique_ptr<Wire::Message> message;
  };
  std::mutex reports_mutex_;  // the calling and the communication thread may both wait
  std::vector<Report> reports_;
  std::vector<std::unique_ptr<Wire::Message>> sent_reports_;
  std::uint64_t reported_ = 0;  // the sequence reported last, plus one
};

}  // namespace lockstep::comm
