// Small collectives of a HostGroup: one or two exchanges through slots.
#include <algorithm>
#include <bit>
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
    case Collective::AllReduce:
      return doubles(request) ||
             (!power_of_two() && bytes <= std::min(endpoint_->tuning().two_hop_bytes, channel_.slot_payload()));
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

// ---- exchanging ---------------------------------------------------------------------------------

inline void HostGroup::exchange(int peer, std::uint32_t fingerprint, const std::byte* data, std::size_t bytes,
                                std::byte* place, std::size_t place_bytes) noexcept {
  const SlotExchange slots(channel_, rank_, peer, ++exchanges_[static_cast<std::size_t>(peer)], fingerprint);
  slots.push(slot_copy_, data, bytes);
  parcel(peer) = {place, place_bytes, slots};
}

inline bool HostGroup::pulled(int peer, const Descriptor& descriptor) {
  const Parcel& from = parcel(peer);
  const auto arrival = from.exchange.arrival();
  if (arrival == SlotExchange::Arrival::Pending) return false;
  if (arrival == SlotExchange::Arrival::Mismatch) fail_mismatch(peer, descriptor);
  if (from.place != nullptr && from.bytes > 0) std::memcpy(from.place, message_of(peer), from.bytes);
  return true;
}

bool HostGroup::pulled_all(const Descriptor& descriptor, Peers peers, int& next) {
  for (; next < peers.end; next += peers.stride) {
    if (next != rank_ && !pulled(next, descriptor)) return false;
  }
  return true;
}

// ---- all-reduce by recursive doubling -------------------------------------------------------------
//
// Ranks that differ in bit 0 exchange all they have and reduce it, then those that
// differ in bit 1, and so on: log2(n) messages each, and exactly the fixed tree.

bool HostGroup::doubles(const Request& request) const noexcept {
  const std::size_t bytes = static_cast<std::size_t>(request.descriptor.count) * request.element_bytes;
  // Half types travel as float32 after the first exchange.
  return power_of_two() && bytes <= endpoint_->tuning().doubling_bytes &&
         bytes * (accumulate_type(request.descriptor.type) == request.descriptor.type ? 1 : 2) <=
             channel_.slot_payload();
}

void HostGroup::begin_doubling(const Request& request) {
  doubling_ = {1, request.descriptor.fingerprint(), true};
  if (size_ == 1) return;
  const std::size_t bytes = static_cast<std::size_t>(request.descriptor.count) * request.element_bytes;
  exchange(rank_ ^ 1, doubling_.fingerprint, request.output, bytes, nullptr, bytes);
  endpoint_->segment().notify();
}

// Goes as far as messages have come; true when done.
bool HostGroup::advance_doubling(const Request& request) {
  const Descriptor& descriptor = request.descriptor;
  const TreeReduction reduction{descriptor.type, descriptor.op, size_};
  const auto partial_type = accumulate_type(descriptor.type);
  const bool widens = partial_type != descriptor.type;
  const std::size_t partial_bytes =
      static_cast<std::size_t>(descriptor.count) * (widens ? c10::elementSize(partial_type) : request.element_bytes);
  std::byte* const partial = widens ? partial_.data() : request.output;
  constexpr int kLeaves[] = {0, 1};
  for (; doubling_.distance < size_; doubling_.distance *= 2) {
    const int peer = rank_ ^ doubling_.distance;
    if (!pulled(peer, descriptor)) return false;
    const bool first = doubling_.distance == 1;
    const bool last = doubling_.distance * 2 == size_;
    const void* inputs[] = {first ? request.output : partial, message_of(peer)};
    if (peer < rank_) std::swap(inputs[0], inputs[1]);
    void* output = last ? request.output : partial;
    reduce_tree(reduction, {0, 2}, kLeaves, inputs, first ? Stage::Elements : Stage::Partials, {&output, 1},
                last ? Stage::Elements : Stage::Partials, descriptor.count);
    if (last) continue;
    exchange(rank_ ^ (doubling_.distance * 2), doubling_.fingerprint, partial, partial_bytes, nullptr, partial_bytes);
    endpoint_->segment().notify();
  }
  doubling_.begun = false;
  return true;
}

bool HostGroup::begin_at_once(const Request& request) {
  const Collective collective = request.descriptor.collective;
  const bool small = collective == Collective::AllReduce || collective == Collective::Barrier;
  if (!small || request.lane != Lane::Urgent || !doubles(request) || on_grid(request)) return false;
  begin_doubling(request);
  return true;
}

bool HostGroup::finish_at_once(const Request& request, int spins) {
  for (int i = 0; !advance_doubling(request); ++i) {
    if (i >= spins) return false;
    spin_pause();
  }
  return true;
}

Task HostGroup::all_reduce_by_doubling(const Request& request) {
  if (!doubling_.begun) begin_doubling(request);
  co_await Until([&] { return advance_doubling(request); });
}

// ---- all-reduce on a grid -----------------------------------------------------------------------------
//
// Ranks form rows of neighbours, each row a node of the tree. A row reduces slice by
// slice, the columns combine the rows' slices, and the row shares the result: three
// short exchanges instead of log2(n) long ones.

bool HostGroup::on_grid(const Request& request) const noexcept {
  constexpr int kLeastRanks = 8;
  return size_ >= kLeastRanks && request.descriptor.count > 0;
}

Task HostGroup::all_reduce_on_grid(const Request& request) {
  const Descriptor& descriptor = request.descriptor;
  const std::uint32_t fingerprint = descriptor.fingerprint();
  const TreeReduction reduction{descriptor.type, descriptor.op, size_};
  const int columns = 1 << ((std::countr_zero(static_cast<unsigned>(size_)) + 1) / 2);
  const int rows = size_ / columns;
  const int column = rank_ % columns;
  const int row_first = rank_ - column;
  const auto slice = [&](int index) { return slice_of(descriptor.count, columns, index, request.element_bytes); };
  const auto bytes_of = [&](int index) {
    return static_cast<std::size_t>(slice(index).count()) * request.element_bytes;
  };
  const auto place_of = [&](int index) {
    return request.output + static_cast<std::size_t>(slice(index).begin) * request.element_bytes;
  };
  const std::int64_t count = slice(column).count();

  for (int i = 1; i < columns; ++i) {
    const int peer = (column + i) % columns;
    exchange(row_first + peer, fingerprint, place_of(peer), bytes_of(peer), nullptr, bytes_of(column));
  }
  endpoint_->segment().notify();
  const Peers row_peers{row_first, row_first + columns, 1}, column_peers{column, size_, columns};
  co_await messages_of(descriptor, row_peers);
  std::byte* const partial = partial_.data();
  const std::size_t partial_bytes =
      static_cast<std::size_t>(count) * c10::elementSize(accumulate_type(descriptor.type));
  reduce_parts(reduction, row_peers, place_of(column), Stage::Elements, partial, Stage::Partials, count);

  for (int i = 1; i < rows; ++i) {
    const int row = (rank_ / columns + i) % rows;
    exchange(row * columns + column, fingerprint, partial, partial_bytes, nullptr, partial_bytes);
  }
  endpoint_->segment().notify();
  co_await messages_of(descriptor, column_peers);
  reduce_parts(reduction, column_peers, partial, Stage::Partials, place_of(column), Stage::Elements, count);

  for (int i = 1; i < columns; ++i) {
    const int peer = (column + i) % columns;
    exchange(row_first + peer, fingerprint, place_of(column), bytes_of(column), place_of(peer), bytes_of(peer));
  }
  endpoint_->segment().notify();
  co_await messages_of(descriptor, row_peers);
}

// Reduces equal parts of the tree: this rank's lies at `mine`, the others in the slots of `peers`.
void HostGroup::reduce_parts(const TreeReduction& reduction, Peers peers, const std::byte* mine, Stage input_stage,
                             std::byte* result, Stage output_stage, std::int64_t count) {
  int parts = 0;
  for (int peer = peers.first; peer < peers.end; peer += peers.stride) {
    slot_inputs_[static_cast<std::size_t>(parts++)] = peer == rank_ ? mine : message_of(peer);
  }
  void* output = result;
  reduce_tree(reduction, {0, parts}, leaf_numbers(parts),
              std::span(slot_inputs_).first(static_cast<std::size_t>(parts)), input_stage, {&output, 1}, output_stage,
              count);
}

// ---- all-reduce in two hops: everyone reduces its slice and sends the result around ----------------

Task HostGroup::all_reduce_in_two_hops(const Request& request) {
  const Descriptor& descriptor = request.descriptor;
  const std::uint32_t fingerprint = descriptor.fingerprint();
  const auto bytes_of = [&](const Slice& slice) {
    return static_cast<std::size_t>(slice.count()) * request.element_bytes;
  };
  const auto place_of = [&](const Slice& slice) {
    return request.output + static_cast<std::size_t>(slice.begin) * request.element_bytes;
  };
  const auto slice = [&](int peer) { return slice_of(descriptor.count, size_, peer, request.element_bytes); };
  const Slice mine = slice(rank_);

  for (int i = 1; i < size_; ++i) {
    const int peer = (rank_ + i) % size_;
    exchange(peer, fingerprint, place_of(slice(peer)), bytes_of(slice(peer)), nullptr, bytes_of(mine));
  }
  endpoint_->segment().notify();
  co_await messages_of(descriptor, {0, size_, 1});

  reduce_parts({descriptor.type, descriptor.op, size_}, {0, size_, 1}, place_of(mine), Stage::Elements, place_of(mine),
               Stage::Elements, mine.count());

  for (int i = 1; i < size_; ++i) {
    const int peer = (rank_ + i) % size_;
    exchange(peer, fingerprint, place_of(mine), bytes_of(mine), place_of(slice(peer)), bytes_of(slice(peer)));
  }
  endpoint_->segment().notify();
  co_await messages_of(descriptor, {0, size_, 1});
}

// ---- everything else: one exchange with everyone ---------------------------------------------------

Task HostGroup::run_in_slots(const Request& request) {
  const Descriptor& descriptor = request.descriptor;
  const std::size_t bytes = static_cast<std::size_t>(descriptor.count) * request.element_bytes;
  const bool root = descriptor.root == rank_;
  const std::uint32_t fingerprint = descriptor.fingerprint();

  // What goes to each peer, and where what comes from each peer goes.
  struct Message {
    const std::byte* data = nullptr;
    std::size_t bytes = 0;
  };
  struct Place {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
  };
  std::vector<Message> outgoing(static_cast<std::size_t>(size_));
  std::vector<Place> incoming(static_cast<std::size_t>(size_));
  const auto to_all = [&](Message message) { std::fill(outgoing.begin(), outgoing.end(), message); };
  const auto send_blocks = [&] {
    const auto offsets = block_offsets(request.send_counts, request.element_bytes);
    for (std::size_t i = 0; i < outgoing.size(); ++i)
      outgoing[i] = {request.input + offsets[i], offsets[i + 1] - offsets[i]};
  };
  const auto receive_blocks = [&] {
    const auto offsets = block_offsets(request.recv_counts, request.element_bytes);
    for (std::size_t i = 0; i < incoming.size(); ++i)
      incoming[i] = {request.output + offsets[i], offsets[i + 1] - offsets[i]};
  };
  const auto into_slots = [&] { std::fill(incoming.begin(), incoming.end(), Place{nullptr, bytes}); };
  const auto mine = static_cast<std::size_t>(rank_);
  const auto at_root = static_cast<std::size_t>(std::max<int>(descriptor.root, 0));

  switch (descriptor.collective) {
    case Collective::Broadcast:
      if (root)
        to_all({request.output, bytes});
      else
        incoming[at_root] = {request.output, bytes};
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
      incoming[at_root] = {request.output, static_cast<std::size_t>(request.recv_counts[0]) * request.element_bytes};
      break;
    case Collective::AllToAll:
      send_blocks();
      receive_blocks();
      break;
    case Collective::Reduce:
      if (root)
        into_slots();
      else
        outgoing[at_root] = {request.output, bytes};
      break;
    case Collective::ReduceScatter:
      for (std::size_t i = 0; i < outgoing.size(); ++i) outgoing[i] = {request.input + i * bytes, bytes};
      into_slots();
      break;
    default: break;  // a barrier sends nothing
  }
  for (int i = 1; i < size_; ++i) {
    const int peer = (rank_ + i) % size_;
    const Message& message = outgoing[static_cast<std::size_t>(peer)];
    const Place& place = incoming[static_cast<std::size_t>(peer)];
    exchange(peer, fingerprint, message.data, message.bytes, place.data, place.bytes);
  }
  endpoint_->segment().notify();

  // This rank's own share needs no exchange.
  const bool moves = descriptor.collective != Collective::Reduce && descriptor.collective != Collective::ReduceScatter;
  if (moves && incoming[mine].bytes > 0 && outgoing[mine].data != incoming[mine].data) {
    std::memmove(incoming[mine].data, outgoing[mine].data, incoming[mine].bytes);
  }
  co_await messages_of(descriptor, {0, size_, 1});

  if (!moves && (root || descriptor.collective == Collective::ReduceScatter)) {
    reduce_parts({descriptor.type, descriptor.op, size_}, {0, size_, 1},
                 root ? request.output : request.input + mine * bytes, Stage::Elements, request.output, Stage::Elements,
                 descriptor.count);
  }
}

}  // namespace lockstep::comm
