// Moving data over several hosts, see hier_group.h for the idea.
#include <algorithm>
#include <numeric>

#include "lockstep/comm/hier_group.h"
#include "lockstep/comm/wire_messages.h"

namespace lockstep::comm {

// Every rank outside the root's host owns a range: a rank of the root's host sends it
// there, and the owner stores it on its host and passes it on to the remaining hosts.
Task HierGroup::broadcast(const Request& request) {
  const Descriptor& descriptor = request.descriptor;
  const Lane lane = request.lane;
  const auto channel = Wire::channel_of(lane);
  const std::size_t element = request.element_bytes;
  const std::size_t bytes = static_cast<std::size_t>(descriptor.count) * element;
  const int root_host = host_of(descriptor.root);
  const bool at_root_host = root_host == my_host();

  const auto buffer = local_->shared(request.output, bytes);
  const bool copied = buffer.get() != request.output;
  if (copied && descriptor.root == rank_) co_await copy(buffer.get(), request.output, bytes);
  co_await open(request, buffer.get(), nullptr);
  co_await agree(request);

  std::vector<Slice> ranges(static_cast<std::size_t>(size_), Slice{0, 0});
  const int owners = size_ - static_cast<int>(ranks_on(root_host).size());
  for (int rank = 0, index = 0; rank < size_; ++rank) {
    if (host_of(rank) != root_host)
      ranges[static_cast<std::size_t>(rank)] = slice_of(descriptor.count, owners, index++, element);
  }
  const auto begin_of = [&](int owner) {
    return static_cast<std::size_t>(ranges[static_cast<std::size_t>(owner)].begin) * element;
  };
  const auto bytes_of = [&](int owner) {
    return static_cast<std::size_t>(ranges[static_cast<std::size_t>(owner)].count()) * element;
  };
  WireMessages outgoing, incoming;
  std::byte* const root_data =
      at_root_host ? input_of(lane, map_.index_of[static_cast<std::size_t>(descriptor.root)]) : nullptr;
  if (at_root_host) {
    for (const int owner : clients()) {
      if (bytes_of(owner) > 0)
        outgoing.add(
            wire_->send(wire_group_, channel, world_rank(owner), root_data + begin_of(owner), bytes_of(owner), buffer));
    }
    if (rank_ != descriptor.root) co_await copy(buffer.get(), root_data, bytes);
  } else {
    const auto spread = [&](int owner) -> Task {  // from this rank's buffer into those of its host
      for (int peer = 0; peer < local_size(); ++peer) {
        std::byte* target = input_of(lane, peer) + begin_of(owner);
        if (input_of(lane, peer) != buffer.get())
          co_await copy(target, buffer.get() + begin_of(owner), bytes_of(owner));
      }
    };
    std::vector<int> arriving;
    for (const int owner : clients()) {
      if (host_of(owner) == root_host || bytes_of(owner) == 0) continue;
      arriving.push_back(owner);
      incoming.add(wire_->receive(wire_group_, channel, world_rank(owner), buffer.get() + begin_of(owner),
                                  bytes_of(owner), buffer));
    }
    if (bytes_of(rank_) > 0) {
      WireMessages own;
      own.add(wire_->receive(wire_group_, channel, world_rank(partner(root_host, rank_)),
                             buffer.get() + begin_of(rank_), bytes_of(rank_), buffer));
      co_await own.arrived();
      for (int host = 0; host < map_.hosts(); ++host) {
        if (host == my_host() || host == root_host) continue;
        outgoing.add(wire_->send(wire_group_, channel, world_rank(partner(host, rank_)), buffer.get() + begin_of(rank_),
                                 bytes_of(rank_), buffer));
      }
      co_await spread(rank_);
    }
    co_await incoming.arrived();
    for (const int owner : arriving) co_await spread(owner);
  }
  co_await outgoing.arrived();
  co_await close(request);
  if (copied && descriptor.root != rank_) co_await copy(request.output, buffer.get(), bytes);
}

// Every rank sends its block to its partner on each other host, which stores it into
// every output there.
Task HierGroup::all_gather(const Request& request) {
  const Lane lane = request.lane;
  const auto channel = Wire::channel_of(lane);
  const std::size_t element = request.element_bytes;
  std::vector<std::size_t> offsets(1, 0);
  for (const auto count : request.recv_counts)
    offsets.push_back(offsets.back() + static_cast<std::size_t>(count) * element);
  const auto begin_of = [&](int owner) { return offsets[static_cast<std::size_t>(owner)]; };
  const auto bytes_of = [&](int owner) {
    return offsets[static_cast<std::size_t>(owner) + 1] - offsets[static_cast<std::size_t>(owner)];
  };

  // Peers write into this rank's output, so the input is taken there first.
  const auto output = local_->shared(request.output, offsets.back());
  co_await copy(output.get() + begin_of(rank_), request.input, bytes_of(rank_));
  co_await open(request, nullptr, output.get());
  co_await agree(request);

  WireMessages outgoing, incoming;
  for (int host = 0; host < map_.hosts() && bytes_of(rank_) > 0; ++host) {
    if (host == my_host()) continue;
    outgoing.add(wire_->send(wire_group_, channel, world_rank(partner(host, rank_)), output.get() + begin_of(rank_),
                             bytes_of(rank_), output));
  }
  for (const int owner : clients()) {
    if (bytes_of(owner) > 0)
      incoming.add(wire_->receive(wire_group_, channel, world_rank(owner), output.get() + begin_of(owner),
                                  bytes_of(owner), output));
  }
  const auto spread = [&](int owner) -> Task {
    for (int peer = 0; peer < local_size(); ++peer) {
      if (peer != local_->rank())
        co_await copy(output_of(lane, peer) + begin_of(owner), output.get() + begin_of(owner), bytes_of(owner));
    }
  };
  co_await spread(rank_);
  co_await incoming.arrived();
  for (const int owner : clients()) co_await spread(owner);
  co_await outgoing.arrived();
  co_await close(request);
  if (output.get() != request.output) co_await copy(request.output, output.get(), offsets.back());
}

// Gather, scatter and all_to_all: each block travels once, straight from its sender to
// its receiver; on the host the receiver copies it. Also the barrier, which has none.
Task HierGroup::exchange_blocks(const Request& request) {
  const Descriptor& descriptor = request.descriptor;
  const Lane lane = request.lane;
  const auto channel = Wire::channel_of(lane);
  const std::size_t element = request.element_bytes;
  const bool root = descriptor.root == rank_;
  const auto ranks = static_cast<std::size_t>(size_);
  std::vector<OfferedBlock> out(ranks), in(ranks);
  const auto blocks = [&](const std::vector<std::int64_t>& counts, std::vector<OfferedBlock>& result) {
    std::size_t at = 0;
    for (std::size_t i = 0; i < ranks; ++i) {
      result[i] = {at, static_cast<std::size_t>(counts[i]) * element};
      at += result[i].bytes;
    }
    return at;
  };
  std::size_t offered = 0;
  switch (descriptor.collective) {
    case Collective::Gather:
      offered = static_cast<std::size_t>(request.send_counts[0]) * element;
      out[static_cast<std::size_t>(descriptor.root)] = {0, offered};
      if (root) blocks(request.recv_counts, in);
      break;
    case Collective::Scatter:
      if (root) offered = blocks(request.send_counts, out);
      in[static_cast<std::size_t>(descriptor.root)] = {0, static_cast<std::size_t>(request.recv_counts[0]) * element};
      break;
    case Collective::AllToAll:
      offered = blocks(request.send_counts, out);
      blocks(request.recv_counts, in);
      break;
    default: break;
  }

  const auto input = local_->shared(request.input, offered);
  if (input.get() != request.input) co_await copy(input.get(), request.input, offered);
  // Local receivers look up where their block begins.
  OfferedBlock* offered_blocks = local_->channel().blocks(lane, local_->rank());
  for (int peer = 0; peer < local_size(); ++peer) {
    offered_blocks[peer] = out[static_cast<std::size_t>(ranks_on(my_host())[static_cast<std::size_t>(peer)])];
  }
  co_await open(request, input.get(), nullptr);
  co_await agree(request);
  const bool known_to_two_only = descriptor.collective == Collective::AllToAll && descriptor.count == 0;
  if (known_to_two_only) co_await check_blocks(request, out, in);

  WireMessages messages;
  for (int peer = 0; peer < size_; ++peer) {
    const OfferedBlock& to = out[static_cast<std::size_t>(peer)];
    const OfferedBlock& from = in[static_cast<std::size_t>(peer)];
    if (host_of(peer) != my_host()) {
      if (from.bytes > 0)
        messages.add(
            wire_->receive(wire_group_, channel, world_rank(peer), request.output + from.at, from.bytes, nullptr));
      if (to.bytes > 0)
        messages.add(wire_->send(wire_group_, channel, world_rank(peer), input.get() + to.at, to.bytes, input));
    } else if (from.bytes > 0) {
      const int index = map_.index_of[static_cast<std::size_t>(peer)];
      const std::byte* source = input_of(lane, index) + local_->channel().blocks(lane, index)[local_->rank()].at;
      co_await copy(request.output + from.at, source, from.bytes);
    }
  }
  co_await messages.arrived();
  co_await close(request);
}

// Every rank tells every other on other hosts how much it sends.
Task HierGroup::check_blocks(const Request& request, const std::vector<OfferedBlock>& out,
                             const std::vector<OfferedBlock>& in) {
  const auto channel = Wire::channel_of(request.lane);
  const auto sent = std::make_shared<std::vector<OfferedBlock>>(out);
  const auto offered = std::make_shared<std::vector<OfferedBlock>>(out.size());
  WireMessages messages;
  for (int peer = 0; peer < size_; ++peer) {
    const auto index = static_cast<std::size_t>(peer);
    if (host_of(peer) == my_host()) {
      (*offered)[index] = local_->channel().blocks(request.lane, map_.index_of[index])[local_->rank()];
      continue;
    }
    messages.add(
        wire_->receive(wire_group_, channel, world_rank(peer), &(*offered)[index], sizeof(OfferedBlock), offered));
    messages.add(wire_->send(wire_group_, channel, world_rank(peer), &(*sent)[index], sizeof(OfferedBlock), sent));
  }
  co_await messages.arrived();
  for (int peer = 0; peer < size_; ++peer) {
    const auto index = static_cast<std::size_t>(peer);
    local_->check_block(request, world_rank(peer), (*offered)[index].bytes, in[index].bytes);
  }
}

// ---- between two ranks -----------------------------------------------------------------------------

namespace {

struct PairHeader {
  std::int64_t count;
  std::int64_t type;
};

}  // namespace

Task HierGroup::message_on_host(const Request& request) {
  Request local = request;
  local.descriptor.root = static_cast<std::int16_t>(peer_of_message(request.descriptor));
  co_await local_->run(local);
}

Task HierGroup::send(const Request& request) {
  const Descriptor& descriptor = request.descriptor;
  const auto header =
      std::make_shared<PairHeader>(PairHeader{descriptor.count, static_cast<std::int64_t>(descriptor.type)});
  const int to = world_rank(descriptor.root);
  const std::size_t bytes = static_cast<std::size_t>(descriptor.count) * request.element_bytes;
  WireMessages messages;
  messages.add(wire_->send(wire_group_, Wire::kPairs, to, header.get(), sizeof(PairHeader), header));
  if (bytes > 0) messages.add(wire_->send(wire_group_, Wire::kPairs, to, request.input, bytes, nullptr));
  co_await messages.arrived();
}

Task HierGroup::receive(const Request& request) {
  const Descriptor& descriptor = request.descriptor;
  const auto header = std::make_shared<PairHeader>();
  const int from = world_rank(descriptor.root);
  WireMessages messages;
  messages.add(wire_->receive(wire_group_, Wire::kPairs, from, header.get(), sizeof(PairHeader), header));
  co_await messages.arrived();
  if (header->count != descriptor.count || header->type != static_cast<std::int64_t>(descriptor.type)) {
    local_->endpoint().fail_for_all(describe_mismatch(world_rank(rank_), {descriptor.type, descriptor.count}, from,
                                                      {static_cast<c10::ScalarType>(header->type), header->count}));
  }
  const std::size_t bytes = static_cast<std::size_t>(descriptor.count) * request.element_bytes;
  if (bytes > 0) messages.add(wire_->receive(wire_group_, Wire::kPairs, from, request.output, bytes, nullptr));
  co_await messages.arrived();
}

}  // namespace lockstep::comm
