// lockstep/comm/host_group.h
//
// The back-ends `threads` and `shm`: a group of ranks on one host that share
// memory. Small messages go through slots whose lines carry payload and arrival
// together. Larger ones are done in place where every buffer is shared: the owner
// of a slice stores its sum straight into every rank's buffer. Private memory is
// staged through windows.
//
//   bytes moved per rank and element, n ranks:  in place  read 1, written 1
//                                               staged    read 3, written 2 + 1/n
#pragma once

#include <memory>
#include <vector>

#include "lockstep/comm/backend.h"
#include "lockstep/comm/endpoint.h"
#include "lockstep/comm/reduce.h"
#include "lockstep/comm/slot_exchange.h"

namespace lockstep::comm {

class HostGroup final : public Backend {
 public:
  /// The world of the endpoint's segment.
  explicit HostGroup(std::shared_ptr<Endpoint> endpoint);
  /// A group of `members` (ranks on the host) that meets in `channel`; its first
  /// member passes the memory as owner.
  HostGroup(std::shared_ptr<Endpoint> endpoint, std::vector<int> members, std::byte* channel,
            std::shared_ptr<std::byte> owner);
  ~HostGroup() override;

  const char* name() const noexcept override {
    return size_ == 1 ? "self" : endpoint_->segment().threads() ? "threads" : "shm";
  }
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  int world_rank(int rank) const noexcept override {
    return endpoint_->world_rank_of(members_[static_cast<std::size_t>(rank)]);
  }
  std::vector<Slice> owned(std::int64_t count, std::size_t element_bytes) const override {
    return {slice_of(count, size_, rank_, element_bytes)};
  }
  Task run(const Request& request) override;
  bool begin_at_once(const Request& request) override;
  bool finish_at_once(const Request& request, int spins) override;
  void issued(const Descriptor& descriptor) noexcept override { channel_.record_issued(rank_, descriptor); }
  void examine(const Operation& operation) override { examine(operation, operation.request.descriptor.root); }
  std::string absentees(const Operation& operation) override {
    return absentees(operation, operation.request.descriptor.root);
  }
  std::unique_ptr<Backend> subgroup(const std::vector<int>& members, const Exchange& exchange) override;

  // ---- meeting: what larger collectives, and those over several hosts, are built from ----

  Endpoint& endpoint() const noexcept { return *endpoint_; }
  /// `bytes` at `data` if peers can reach them or there are none, else shared memory for as many. It owns the
  /// second only: the first is a tensor's, see Endpoint::outlive.
  std::shared_ptr<std::byte> shared(const void* data, std::size_t bytes) const;
  /// Announces this rank's buffers for the next operation of the lane; then
  /// co_await everyone_here(lane), check_announcements().
  void announce(Lane lane, std::uint32_t fingerprint, std::uint64_t buffer, std::uint64_t longest_block = 0,
                std::uint64_t output = 0);
  /// Tells the others that this rank has come to the next point of the operation.
  void arrive(Lane lane);
  /// Holds once every rank has come as far as this one.
  auto everyone_here(Lane lane) const noexcept {
    return Until([this, lane, step = lanes_[static_cast<std::size_t>(lane)].step] { return all_arrived(lane, step); });
  }
  const LaneLine::Announcement& announcement(Lane lane, int rank) const noexcept {
    return line(lane, rank).announcement[lanes_[static_cast<std::size_t>(lane)].operations & 1];
  }
  /// Fails for all if a rank announced another collective.
  void check_announcements(const Request& request);
  /// Fails for all if what `sender` (by its rank in the world) offers is not what this rank expects, in bytes.
  void check_block(const Request& request, int sender, std::uint64_t offered, std::uint64_t expected);
  const Channel& channel() const noexcept { return channel_; }
  /// As for a Backend, of an operation of a larger group: the other end of a message is `peer` here.
  void examine(const Operation& operation, int peer);
  std::string absentees(const Operation& operation, int peer);

 private:
  struct LaneState {
    std::uint64_t step = 0;
    std::uint64_t operations = 0;
  };
  struct PairState {
    std::uint64_t sent = 0;      // pieces to the peer
    std::uint64_t received = 0;  // pieces from the peer
    std::shared_ptr<std::byte> windows;
  };

  LaneLine& line(Lane lane, int rank) const noexcept { return channel_.line(lane, rank); }
  bool all_arrived(Lane lane, std::uint64_t step) const noexcept;
  bool all_buffers_shared(Lane lane) const noexcept;
  [[noreturn]] void fail_mismatch(int peer, const Descriptor& mine);
  bool called(int peer, const Operation& operation) const;

  bool fits_slots(const Request& request) const noexcept;
  Task run_in_slots(const Request& request);
  /// What is expected from a peer.
  struct Parcel {
    std::byte* place = nullptr;  // null: it is read in its slot
    std::size_t bytes = 0;
    SlotExchange exchange = {};
  };
  Parcel& parcel(int peer) noexcept { return parcels_[static_cast<std::size_t>(peer)]; }
  /// Sends `bytes` to `peer`; the `place_bytes` that come back go to `place`, if any.
  void exchange(int peer, std::uint32_t fingerprint, const std::byte* data, std::size_t bytes, std::byte* place,
                std::size_t place_bytes) noexcept;
  bool pulled(int peer, const Descriptor& descriptor);
  /// What `peer` sent, where it lies; until the next exchange with it.
  const std::byte* message_of(int peer) noexcept { return parcel(peer).exchange.message(parcel(peer).bytes); }
  /// Peers `first`, `first` + `stride`, … below `end`.
  struct Peers {
    int first, end, stride;
  };
  /// Whether their messages have come, from `next` on.
  bool pulled_all(const Descriptor& descriptor, Peers peers, int& next);
  auto messages_of(const Descriptor& descriptor, Peers peers) {
    return Until(
        [this, &descriptor, peers, next = peers.first]() mutable { return pulled_all(descriptor, peers, next); });
  }

  bool power_of_two() const noexcept { return (size_ & (size_ - 1)) == 0; }
  bool doubles(const Request& request) const noexcept;
  void begin_doubling(const Request& request);
  bool advance_doubling(const Request& request);
  Task all_reduce_by_doubling(const Request& request);
  bool on_grid(const Request& request) const noexcept;
  Task all_reduce_on_grid(const Request& request);
  void reduce_parts(const TreeReduction& reduction, Peers peers, const std::byte* mine, Stage input_stage,
                    std::byte* result, Stage output_stage, std::int64_t count);
  Task all_reduce_in_two_hops(const Request& request);

  Task reduce_in_place(const Request& request);
  Task reduce_update(const Request& request);
  Task all_reduce_staged(const Request& request);
  Task all_reduce_staged_pair(const Request& request);
  Task reduce_scatter_staged(const Request& request);
  struct Moves;
  Moves moves_of(const Request& request) const;
  Task move_in_place(const Request& request);
  Task move_staged(const Request& request, const Moves& moves);
  Task send(const Request& request);
  Task receive(const Request& request);

  std::shared_ptr<Endpoint> endpoint_;
  std::vector<int> members_;  // ranks on the host
  int rank_;
  int size_;
  Channel channel_;
  std::shared_ptr<std::byte> owner_;
  std::array<LaneState, kLanes> lanes_;
  const SlotCopy slot_copy_ = slot_copy();
  std::vector<std::uint64_t> exchanges_;  // with each peer
  // The all-reduce by doubling under way: ranks differing in bit `distance` exchange next.
  struct Doubling {
    int distance = 0;
    std::uint32_t fingerprint = 0;
    bool begun = false;
  };
  Doubling doubling_;
  std::vector<PairState> pairs_;
  // Only one operation of the urgent lane is under way at a time.
  std::vector<std::byte> partial_;
  std::vector<const void*> slot_inputs_;
  std::vector<Parcel> parcels_;  // what comes from each peer
};

}  // namespace lockstep::comm
