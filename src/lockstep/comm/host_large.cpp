// Large collectives of a HostGroup: in place where all buffers are shared, else
// staged through windows.
#include <algorithm>
#include <cstring>
#include <utility>

#include "lockstep/comm/host_group.h"
#include "lockstep/comm/stream_copy.h"

namespace lockstep::comm {
namespace {

// Of a reduction that is worked on at once: it stays in the core's own cache.
constexpr std::size_t kUpdateBytes = 32 << 10;

}  // namespace

// Every rank owns a slice, reads it from all buffers and stores the result where it
// belongs: into all of them, into the root's, or (reduce_scatter) into its own output.
Task HostGroup::reduce_in_place(const Request& request) {
  const Descriptor& descriptor = request.descriptor;
  const Lane lane = request.lane;
  const bool scatters = descriptor.collective == Collective::ReduceScatter;
  if (size_ == 1 && !scatters) co_return;
  announce(lane, descriptor.fingerprint(), endpoint_->address_of_buffer(scatters ? request.input : request.output), 0);
  co_await everyone_here(lane);
  check_announcements(request);
  if (!all_buffers_shared(lane)) {
    if (scatters)
      co_await reduce_scatter_staged(request);
    else if (size_ == 2)
      co_await all_reduce_staged_pair(request);
    else
      co_await all_reduce_staged(request);
    co_return;
  }

  const std::size_t element = request.element_bytes;
  const Slice slice = scatters ? Slice{rank_ * descriptor.count, (rank_ + 1) * descriptor.count}
                               : slice_of(descriptor.count, size_, rank_, element);
  std::vector<const void*> inputs(static_cast<std::size_t>(size_));
  std::vector<void*> outputs;
  const std::int64_t piece =
      static_cast<std::int64_t>(std::max(endpoint_->tuning().piece_bytes / element, std::size_t{1}));
  for (std::int64_t begin = slice.begin; begin < slice.end; begin += piece) {
    const std::int64_t count = std::min(piece, slice.end - begin);
    const std::size_t offset = static_cast<std::size_t>(begin) * element;
    outputs.clear();
    for (int peer = 0; peer < size_; ++peer) {
      std::byte* buffer = endpoint_->pointer_at(announcement(lane, peer).buffer) + offset;
      inputs[static_cast<std::size_t>(peer)] = buffer;
      if (descriptor.collective == Collective::AllReduce || peer == descriptor.root) outputs.push_back(buffer);
    }
    if (scatters) outputs.push_back(request.output + static_cast<std::size_t>(begin - slice.begin) * element);
    reduce_leaves({descriptor.type, descriptor.op, size_}, inputs, outputs, count);
    if (begin + piece < slice.end) co_await Breathe{};
  }
  // Peers work in this rank's buffers until they arrive too.
  arrive(lane);
  co_await everyone_here(lane);
}

// The owner of a slice reads it from all inputs, changes its own target and stores that into all others: what
// was read is never written back, and targets are written once.
Task HostGroup::reduce_update(const Request& request) {
  const Descriptor& descriptor = request.descriptor;
  const Lane lane = request.lane;
  const std::size_t element = request.element_bytes;
  const std::size_t bytes = static_cast<std::size_t>(descriptor.count) * element;
  const auto input = shared(request.input, bytes);
  const auto target = shared(request.output, bytes);
  if (input.get() != request.input) copy_bytes(input.get(), request.input, bytes);
  announce(lane, descriptor.fingerprint(), endpoint_->address_of(input.get()), 0, endpoint_->address_of(target.get()));
  co_await everyone_here(lane);
  check_announcements(request);

  const Slice slice = slice_of(descriptor.count, size_, rank_, element);
  std::vector<std::byte> reduced(kUpdateBytes);
  std::vector<const void*> inputs(static_cast<std::size_t>(size_));
  const auto piece = static_cast<std::int64_t>(kUpdateBytes / element);
  std::size_t since_breath = 0;
  for (std::int64_t begin = slice.begin; begin < slice.end; begin += piece) {
    const std::int64_t count = std::min(piece, slice.end - begin);
    const std::size_t offset = static_cast<std::size_t>(begin) * element;
    const std::size_t piece_bytes = static_cast<std::size_t>(count) * element;
    for (int peer = 0; peer < size_; ++peer) {
      inputs[static_cast<std::size_t>(peer)] =
          peer == rank_ ? input.get() + offset : endpoint_->pointer_at(announcement(lane, peer).buffer) + offset;
    }
    void* sum = reduced.data();
    reduce_leaves({descriptor.type, descriptor.op, size_}, inputs, {&sum, 1}, count);
    request.update(begin, count, sum);
    for (int i = 1; i < size_; ++i) {
      const int peer = (rank_ + i) % size_;
      stream_copy(endpoint_->pointer_at(announcement(lane, peer).output) + offset, request.output + offset,
                  piece_bytes);
    }
    if (target.get() != request.output) copy_bytes(target.get() + offset, request.output + offset, piece_bytes);
    since_breath += piece_bytes * static_cast<std::size_t>(size_);
    if (since_breath < endpoint_->tuning().piece_bytes) continue;
    since_breath = 0;
    co_await Breathe{};
  }
  stream_fence();
  // Peers work in this rank's buffers until they arrive too.
  arrive(lane);
  co_await everyone_here(lane);
  if (target.get() != request.output) copy_bytes(request.output, target.get(), bytes);
}

// Piece by piece: copy in, meet, reduce the own slice, meet, copy the others' slices
// out. Two windows take turns, so a slow reader of one piece meets no writer.
Task HostGroup::all_reduce_staged(const Request& request) {
  const Descriptor& descriptor = request.descriptor;
  const Lane lane = request.lane;
  const std::size_t element = request.element_bytes;
  const bool all = descriptor.collective == Collective::AllReduce;
  const std::int64_t piece = static_cast<std::int64_t>(endpoint_->tuning().window_bytes / element);
  std::vector<const void*> inputs(static_cast<std::size_t>(size_));
  std::uint64_t parity = 0;
  for (std::int64_t begin = 0; begin < descriptor.count; begin += piece, parity ^= 1) {
    const std::int64_t count = std::min(piece, descriptor.count - begin);
    std::byte* const data = request.output + static_cast<std::size_t>(begin) * element;
    std::byte* const window = channel_.window(lane, rank_, parity);
    std::memcpy(window, data, static_cast<std::size_t>(count) * element);
    arrive(lane);
    co_await everyone_here(lane);

    const Slice mine = slice_of(count, size_, rank_, element);
    const std::size_t offset = static_cast<std::size_t>(mine.begin) * element;
    for (int peer = 0; peer < size_; ++peer) {
      inputs[static_cast<std::size_t>(peer)] = channel_.window(lane, peer, parity) + offset;
    }
    // Nobody else reads this slice of this rank's window any more: it takes the result.
    void* outputs[] = {window + offset, data + offset};
    reduce_leaves({descriptor.type, descriptor.op, size_}, inputs, {outputs, all || descriptor.root == rank_ ? 2u : 1u},
                  mine.count());
    arrive(lane);
    co_await everyone_here(lane);

    for (int i = 1; (all || descriptor.root == rank_) && i < size_; ++i) {
      const int peer = (rank_ + i) % size_;
      const Slice theirs = slice_of(count, size_, peer, element);
      const std::size_t at = static_cast<std::size_t>(theirs.begin) * element;
      std::memcpy(data + at, channel_.window(lane, peer, parity) + at,
                  static_cast<std::size_t>(theirs.count()) * element);
    }
    co_await Breathe{};
  }
}

// Two ranks: each reads all of the other's piece. The same bytes cross between the
// cores as by slices, with one meeting a piece instead of two.
Task HostGroup::all_reduce_staged_pair(const Request& request) {
  const Descriptor& descriptor = request.descriptor;
  const Lane lane = request.lane;
  const std::size_t element = request.element_bytes;
  const bool writes = descriptor.collective == Collective::AllReduce || descriptor.root == rank_;
  const std::int64_t piece = static_cast<std::int64_t>(endpoint_->tuning().window_bytes / element);
  std::uint64_t parity = 0;
  for (std::int64_t begin = 0; begin < descriptor.count; begin += piece, parity ^= 1) {
    const std::int64_t count = std::min(piece, descriptor.count - begin);
    std::byte* const data = request.output + static_cast<std::size_t>(begin) * element;
    std::memcpy(channel_.window(lane, rank_, parity), data, static_cast<std::size_t>(count) * element);
    arrive(lane);
    co_await everyone_here(lane);
    const void* inputs[] = {data, channel_.window(lane, 1 - rank_, parity)};
    if (rank_ == 1) std::swap(inputs[0], inputs[1]);
    void* output = data;
    if (writes) reduce_leaves({descriptor.type, descriptor.op, size_}, inputs, {&output, 1}, count);
    co_await Breathe{};
  }
}

Task HostGroup::reduce_scatter_staged(const Request& request) {
  const Descriptor& descriptor = request.descriptor;
  const Lane lane = request.lane;
  const std::size_t element = request.element_bytes;
  // A window holds a piece of every rank's block.
  const std::int64_t piece =
      std::max<std::int64_t>(static_cast<std::int64_t>(endpoint_->tuning().window_bytes / element) / size_, 1);
  std::vector<const void*> inputs(static_cast<std::size_t>(size_));
  std::uint64_t parity = 0;
  for (std::int64_t begin = 0; begin < descriptor.count; begin += piece, parity ^= 1) {
    const std::int64_t count = std::min(piece, descriptor.count - begin);
    const std::size_t bytes = static_cast<std::size_t>(count) * element;
    std::byte* const window = channel_.window(lane, rank_, parity);
    for (int block = 0; block < size_; ++block) {
      std::memcpy(window + static_cast<std::size_t>(block) * bytes,
                  request.input + static_cast<std::size_t>(block * descriptor.count + begin) * element, bytes);
    }
    arrive(lane);
    co_await everyone_here(lane);
    for (int peer = 0; peer < size_; ++peer) {
      inputs[static_cast<std::size_t>(peer)] =
          channel_.window(lane, peer, parity) + static_cast<std::size_t>(rank_) * bytes;
    }
    void* output = request.output + static_cast<std::size_t>(begin) * element;
    reduce_leaves({descriptor.type, descriptor.op, size_}, inputs, {&output, 1}, count);
    co_await Breathe{};
  }
}

// ---- moving data ---------------------------------------------------------------------------

// Who sends what: a rank offers either one block to everyone or one block per rank.
struct HostGroup::Moves {
  bool per_destination;                 // one block per destination, else the same for all
  std::vector<std::size_t> from;        // bytes this rank takes from each peer
  std::vector<std::size_t> to_at;       // where they go in its output
  std::vector<std::size_t> offered;     // sizes of the blocks this rank offers
  std::vector<std::size_t> offered_at;  // where they lie in its input
  const std::byte* input;
};

HostGroup::Moves HostGroup::moves_of(const Request& request) const {
  const Descriptor& descriptor = request.descriptor;
  const std::size_t element = request.element_bytes;
  const auto ranks = static_cast<std::size_t>(size_);
  const bool root = descriptor.root == rank_;
  Moves moves{};
  moves.input = request.input;
  moves.from.assign(ranks, 0);
  moves.to_at.assign(ranks, 0);
  const auto take_all = [&] {
    std::size_t at = 0;
    for (std::size_t i = 0; i < ranks; ++i) {
      moves.from[i] = static_cast<std::size_t>(request.recv_counts[i]) * element;
      moves.to_at[i] = at;
      at += moves.from[i];
    }
  };
  const auto offer_all = [&] {
    std::size_t at = 0;
    for (std::size_t i = 0; i < ranks; ++i) {
      moves.offered.push_back(static_cast<std::size_t>(request.send_counts[i]) * element);
      moves.offered_at.push_back(at);
      at += moves.offered.back();
    }
  };
  const auto offer_one = [&](std::size_t bytes) {
    moves.offered = {bytes};
    moves.offered_at = {0};
  };
  switch (descriptor.collective) {
    case Collective::Broadcast: {
      const std::size_t bytes = static_cast<std::size_t>(descriptor.count) * element;
      moves.input = request.output;
      offer_one(root ? bytes : 0);
      if (!root) moves.from[static_cast<std::size_t>(descriptor.root)] = bytes;
      break;
    }
    case Collective::AllGather:
      offer_one(static_cast<std::size_t>(request.send_counts[0]) * element);
      take_all();
      break;
    case Collective::Gather:
      offer_one(static_cast<std::size_t>(request.send_counts[0]) * element);
      if (root) take_all();
      break;
    case Collective::Scatter:
      moves.per_destination = true;
      if (root) offer_all();
      moves.from[static_cast<std::size_t>(descriptor.root)] =
          static_cast<std::size_t>(request.recv_counts[0]) * element;
      break;
    default:  // all_to_all
      moves.per_destination = true;
      offer_all();
      take_all();
      break;
  }
  if (moves.per_destination && moves.offered.empty()) {
    moves.offered.assign(ranks, 0);
    moves.offered_at.assign(ranks, 0);
  }
  return moves;
}

void HostGroup::check_block(const Request& request, int sender, std::uint64_t offered, std::uint64_t expected) {
  if (offered == expected) return;
  const auto elements = [&](std::uint64_t bytes) {
    return MessageSize{request.descriptor.type, static_cast<std::int64_t>(bytes / request.element_bytes)};
  };
  endpoint_->fail_for_all(describe_mismatch(world_rank(rank_), elements(expected), sender, elements(offered)) + " in " +
                          request.descriptor.text());
}

Task HostGroup::move_in_place(const Request& request) {
  const Lane lane = request.lane;
  const Moves moves = moves_of(request);
  const std::size_t longest = *std::max_element(moves.offered.begin(), moves.offered.end());
  // Readers look up where their block begins.
  OfferedBlock* blocks = channel_.blocks(lane, rank_);
  for (std::size_t peer = 0; peer < static_cast<std::size_t>(size_); ++peer) {
    const std::size_t block = moves.per_destination ? peer : 0;
    blocks[peer] = {moves.offered_at[block], moves.offered[block]};
  }
  // A rank that offers nothing has no say in whether buffers are shared.
  const std::uint64_t buffer =
      longest > 0 ? endpoint_->address_of_buffer(moves.input) : endpoint_->address_of(channel_.window(lane, rank_, 0));
  announce(lane, request.descriptor.fingerprint(), buffer, longest);
  co_await everyone_here(lane);
  check_announcements(request);
  if (request.descriptor.collective == Collective::AllToAll) {
    // Blocks of unequal sizes are known to their two ranks only.
    for (int peer = 0; peer < size_; ++peer) {
      check_block(request, world_rank(peer), channel_.blocks(lane, peer)[rank_].bytes,
                  moves.from[static_cast<std::size_t>(peer)]);
    }
  }
  if (!all_buffers_shared(lane)) {
    co_await move_staged(request, moves);
    co_return;
  }
  const std::size_t piece = endpoint_->tuning().piece_bytes;
  for (int i = 0; i < size_; ++i) {
    const int peer = (rank_ + i) % size_;
    const auto index = static_cast<std::size_t>(peer);
    const std::byte* source =
        endpoint_->pointer_at(announcement(lane, peer).buffer) + channel_.blocks(lane, peer)[rank_].at;
    std::byte* target = request.output + moves.to_at[index];
    if (source == target) continue;
    for (std::size_t at = 0; at < moves.from[index]; at += piece) {
      std::memcpy(target + at, source + at, std::min(piece, moves.from[index] - at));
      co_await Breathe{};
    }
  }
  // Peers read this rank's buffer until they arrive too.
  arrive(lane);
  co_await everyone_here(lane);
}

// In rounds: every rank shows the next piece of each of its blocks in a window.
Task HostGroup::move_staged(const Request& request, const Moves& moves) {
  const Lane lane = request.lane;
  std::size_t longest = 0;
  for (int peer = 0; peer < size_; ++peer) {
    longest = std::max<std::size_t>(longest, announcement(lane, peer).longest_block);
  }
  const std::size_t window = endpoint_->tuning().window_bytes;
  const std::size_t piece =
      moves.per_destination ? std::max<std::size_t>(window / static_cast<std::size_t>(size_), 64) : window;
  std::uint64_t parity = 0;
  for (std::size_t begin = 0; begin < longest; begin += piece, parity ^= 1) {
    const auto left = [&](std::size_t bytes) { return bytes > begin ? std::min(piece, bytes - begin) : 0; };
    for (std::size_t block = 0; block < moves.offered.size(); ++block) {
      const std::size_t bytes = left(moves.offered[block]);
      if (bytes > 0) {
        std::memcpy(channel_.window(lane, rank_, parity) + block * piece, moves.input + moves.offered_at[block] + begin,
                    bytes);
      }
    }
    arrive(lane);
    co_await everyone_here(lane);
    for (int i = 0; i < size_; ++i) {
      const int peer = (rank_ + i) % size_;
      const auto index = static_cast<std::size_t>(peer);
      const std::size_t bytes = left(moves.from[index]);
      const std::size_t shown_at = moves.per_destination ? static_cast<std::size_t>(rank_) * piece : 0;
      if (bytes > 0) {
        std::memcpy(request.output + moves.to_at[index] + begin, channel_.window(lane, peer, parity) + shown_at, bytes);
      }
    }
    co_await Breathe{};
  }
}

}  // namespace lockstep::comm
