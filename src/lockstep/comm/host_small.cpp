// Small collectives of a HostGroup: one or two exchanges through slots.
#include <cstring>
#include <utility>

#include "lockstep/comm/host_group.h"
#include "lockstep/comm/slot_exchange.h"

namespace lockstep::comm {
namespace {

/// Element counts to byte offsets of the blocks.
std::vector<std::size_t> block_offsets(const std::vector<std::int64_t>& counts, std::size_t element_bytes) {
  std::vector<std::size_t> offsets(counts.size() + 1, 0);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    offsets[i + 1] = offsets[i] + static_cast<std::size_t>(counts[i]) * element_bytes;
  }
  return offsets;
}

}  // namespace

bool HostGroup::fits_slots(const Request& request) const noexcept {
  if (request.lane != Lane::Urgent) return false;
  const Descriptor& descriptor = request.descriptor;
  const std::size_t bytes = static_cast<std::size_t>(descriptor.count) * request.element_bytes;
  switch (descriptor.collective) {
    case Collective::Barrier: return true;
    case Collective::AllReduce: return bytes <= endpoint_->tuning().two_hop_bytes && bytes <= channel_.slot_payload();
    // Everyone knows the sum of all blocks (unequal ones included) and must choose alike.
    case Collective::AllGather:
    case Collective::Gather:
    case Collective::Scatter: return bytes <= channel_.slot_payload();
    case Collective::Broadcast:
    case Collective::Reduce:
    case Collective::ReduceScatter: return bytes <= channel_.slot_payload() / 2;
    // Unequal blocks are known to their two ranks only: count is 0 then.
    case Collective::AllToAll: return descriptor.count > 0 && bytes <= channel_.slot_payload();
    default: return false;
  }
}

inline void HostGroup::post_scratch(std::size_t bytes) {
  for (int peer = 0; peer < size_; ++peer) {
    parcels_[static_cast<std::size_t>(peer)] = {slot_scratch_.data() + static_cast<std::size_t>(peer) * bytes, bytes, 0};
  }
}

inline bool HostGroup::pull_parcels(const SlotExchange& exchange, const Descriptor& descriptor, int& next) {
  for (; next < size_; ++next) {
    if (next == rank_) continue;
    Parcel& parcel = parcels_[static_cast<std::size_t>(next)];
    const auto arrival = exchange.pull(channel_, next, parcel.data, parcel.bytes, parcel.taken);
    if (arrival == SlotExchange::Arrival::Mismatch) fail_mismatch(next, descriptor);
    if (arrival == SlotExchange::Arrival::Pending) return false;
  }
  return true;
}

// ---- all-reduce in one hop: everyone sends everything to everyone and reduces all of it ----

bool HostGroup::one_hop(const Request& request) const noexcept {
  const std::size_t bytes = static_cast<std::size_t>(request.descriptor.count) * request.element_bytes;
  return bytes * static_cast<std::size_t>(size_) <= endpoint_->tuning().one_hop_bytes;
}

void HostGroup::send_one_hop(const Request& request) {
  const std::size_t bytes = static_cast<std::size_t>(request.descriptor.count) * request.element_bytes;
  one_hop_ = SlotExchange(rank_, ++exchanges_, request.descriptor.fingerprint());
  for (int i = 1; i < size_; ++i) one_hop_.push(channel_, (rank_ + i) % size_, request.output, bytes);
  endpoint_->segment().notify();
  post_scratch(bytes);
  pulled_ = 0;
}

bool HostGroup::pull_one_hop(const Request& request) { return pull_parcels(one_hop_, request.descriptor, pulled_); }

void HostGroup::finish_one_hop(const Request& request) {
  for (int peer = 0; peer < size_; ++peer) slot_inputs_[static_cast<std::size_t>(peer)] = parcel(peer).data;
  slot_inputs_[static_cast<std::size_t>(rank_)] = request.output;
  void* output = request.output;
  const Descriptor& descriptor = request.descriptor;
  reduce_leaves({descriptor.type, descriptor.op, size_}, slot_inputs_, {&output, 1}, descriptor.count);
}

bool HostGroup::run_at_once(const Request& request, int spins) {
  if (request.descriptor.collective != Collective::AllReduce || !fits_slots(request) || !one_hop(request)) return false;
  send_one_hop(request);
  for (int i = 0; !pull_one_hop(request); ++i) {
    if (i >= spins) {
      one_hop_sent_ = true;
      return false;
    }
    spin_pause();
  }
  finish_one_hop(request);
  return true;
}

Task HostGroup::all_reduce_one_hop(const Request& request) {
  if (!std::exchange(one_hop_sent_, false)) send_one_hop(request);
  co_await Until([&] { return pull_one_hop(request); });
  finish_one_hop(request);
}

// ---- in two hops: everyone reduces its slice and sends the result around ----------------------

Task HostGroup::all_reduce_two_hops(const Request& request) {
  const Descriptor& descriptor = request.descriptor;
  const std::uint32_t fingerprint = descriptor.fingerprint();
  const auto bytes_of = [&](const Slice& slice) { return static_cast<std::size_t>(slice.count()) * request.element_bytes; };
  const auto place_of = [&](const Slice& slice) { return request.output + static_cast<std::size_t>(slice.begin) * request.element_bytes; };
  const auto slice = [&](int peer) { return slice_of(descriptor.count, size_, peer, request.element_bytes); };

  SlotExchange exchange(rank_, ++exchanges_, fingerprint);
  for (int i = 1; i < size_; ++i) {
    const int peer = (rank_ + i) % size_;
    exchange.push(channel_, peer, place_of(slice(peer)), bytes_of(slice(peer)));
  }
  endpoint_->segment().notify();
  const Slice mine = slice(rank_);
  post_scratch(bytes_of(mine));
  co_await Until([&, next = 0]() mutable { return pull_parcels(exchange, descriptor, next); });

  for (int peer = 0; peer < size_; ++peer) slot_inputs_[static_cast<std::size_t>(peer)] = parcel(peer).data;
  slot_inputs_[static_cast<std::size_t>(rank_)] = place_of(mine);
  void* output = place_of(mine);
  reduce_leaves({descriptor.type, descriptor.op, size_}, slot_inputs_, {&output, 1}, mine.count());

  exchange = SlotExchange(rank_, ++exchanges_, fingerprint);
  for (int i = 1; i < size_; ++i) exchange.push(channel_, (rank_ + i) % size_, place_of(mine), bytes_of(mine));
  endpoint_->segment().notify();
  for (int peer = 0; peer < size_; ++peer) {
    parcels_[static_cast<std::size_t>(peer)] = {place_of(slice(peer)), bytes_of(slice(peer)), 0};
  }
  co_await Until([&, next = 0]() mutable { return pull_parcels(exchange, descriptor, next); });
}

Task HostGroup::run_in_slots(const Request& request) {
  const Descriptor& descriptor = request.descriptor;
  const std::size_t bytes = static_cast<std::size_t>(descriptor.count) * request.element_bytes;
  const bool root = descriptor.root == rank_;
  const SlotExchange exchange(rank_, ++exchanges_, descriptor.fingerprint());

  // What goes to each peer, and where what comes from each peer goes.
  struct Message {
    const std::byte* data = nullptr;
    std::size_t bytes = 0;
  };
  std::vector<Message> outgoing(static_cast<std::size_t>(size_));
  std::fill(parcels_.begin(), parcels_.end(), Parcel{});
  const auto to_all = [&](Message message) { std::fill(outgoing.begin(), outgoing.end(), message); };
  const auto send_blocks = [&] {
    const auto offsets = block_offsets(request.send_counts, request.element_bytes);
    for (std::size_t i = 0; i < outgoing.size(); ++i) outgoing[i] = {request.input + offsets[i], offsets[i + 1] - offsets[i]};
  };
  const auto receive_blocks = [&] {
    const auto offsets = block_offsets(request.recv_counts, request.element_bytes);
    for (std::size_t i = 0; i < parcels_.size(); ++i) parcels_[i] = {request.output + offsets[i], offsets[i + 1] - offsets[i], 0};
  };
  const auto mine = static_cast<std::size_t>(rank_);
  const auto at_root = static_cast<std::size_t>(std::max<int>(descriptor.root, 0));

  switch (descriptor.collective) {
    case Collective::Broadcast:
      if (root) to_all({request.output, bytes});
      else parcels_[at_root] = {request.output, bytes, 0};
      break;
    case Collective::AllGather:
      to_all({request.input, static_cast<std::size_t>(request.send_counts[0]) * request.element_bytes});
      receive_blocks();
      break;
    case Collective::Gather:
      if (root) receive_blocks();
      outgoing[at_root] = {request.input, static_cast<std::size_t>(request.send_counts[0]) * request.element_bytes};
      break;
    case Collective::Scatter:
      if (root) send_blocks();
      parcels_[at_root] = {request.output, static_cast<std::size_t>(request.recv_counts[0]) * request.element_bytes, 0};
      break;
    case Collective::AllToAll:
      send_blocks();
      receive_blocks();
      break;
    case Collective::Reduce:
      if (root) post_scratch(bytes);
      else outgoing[at_root] = {request.output, bytes};
      break;
    case Collective::ReduceScatter:
      for (std::size_t i = 0; i < outgoing.size(); ++i) outgoing[i] = {request.input + i * bytes, bytes};
      post_scratch(bytes);
      break;
    default: break;  // a barrier sends nothing
  }
  for (int i = 1; i < size_; ++i) {
    const int peer = (rank_ + i) % size_;
    const Message& message = outgoing[static_cast<std::size_t>(peer)];
    exchange.push(channel_, peer, message.data, message.bytes);
  }
  endpoint_->segment().notify();

  // This rank's own share needs no exchange.
  const bool moves = descriptor.collective != Collective::Reduce && descriptor.collective != Collective::ReduceScatter;
  if (moves && parcels_[mine].data != nullptr && outgoing[mine].data != parcels_[mine].data && parcels_[mine].bytes > 0) {
    std::memmove(parcels_[mine].data, outgoing[mine].data, parcels_[mine].bytes);
  }
  co_await Until([&, next = 0]() mutable { return pull_parcels(exchange, descriptor, next); });

  if (!moves && (root || descriptor.collective == Collective::ReduceScatter)) {
    for (int peer = 0; peer < size_; ++peer) slot_inputs_[static_cast<std::size_t>(peer)] = parcel(peer).data;
    slot_inputs_[mine] = root ? request.output : request.input + mine * bytes;
    void* output = request.output;
    reduce_leaves({descriptor.type, descriptor.op, size_}, slot_inputs_, {&output, 1}, descriptor.count);
  }
}

}  // namespace lockstep::comm
