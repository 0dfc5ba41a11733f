// Reductions over several hosts, see hier_group.h for the idea.
#include <algorithm>

#include "lockstep/comm/copy_bytes.h"
#include "lockstep/comm/hier_group.h"
#include "lockstep/comm/wire_messages.h"

namespace lockstep::comm {
namespace {

// Bounds the memory for partial results.
constexpr std::int64_t kPieceBytes = std::int64_t{16} << 20;

}  // namespace

std::vector<std::vector<Slice>> HierGroup::ranges_of_pieces(std::int64_t count, std::size_t element_bytes) const {
  const auto piece = std::max<std::int64_t>(kPieceBytes / static_cast<std::int64_t>(element_bytes), 1);
  std::vector<std::vector<Slice>> pieces;
  for (std::int64_t begin = 0; begin < count; begin += piece) {
    auto& ranges = pieces.emplace_back();
    for (int owner = 0; owner < size_; ++owner) {
      const Slice slice = slice_of(std::min(piece, count - begin), size_, owner, element_bytes);
      ranges.push_back({begin + slice.begin, begin + slice.end});
    }
  }
  return pieces;
}

std::vector<Slice> HierGroup::owned(std::int64_t count, std::size_t element_bytes) const {
  std::vector<Slice> mine;
  for (const auto& ranges : ranges_of_pieces(count, element_bytes))
    mine.push_back(ranges[static_cast<std::size_t>(rank_)]);
  return mine;
}

Task HierGroup::reduce(const Request& request) {
  const Descriptor& descriptor = request.descriptor;
  const bool scatters = descriptor.collective == Collective::ReduceScatter;
  const bool updates = descriptor.collective == Collective::ReduceUpdate;
  const std::size_t element = request.element_bytes;
  const std::int64_t total = scatters ? descriptor.count * size_ : descriptor.count;
  const std::size_t bytes = static_cast<std::size_t>(total) * element;

  // What local peers read and write lies in shared memory.
  const std::byte* source = scatters || updates ? request.input : request.output;
  const auto buffer = local_->shared(source, bytes);
  if (buffer.get() != source) co_await copy(buffer.get(), source, bytes);
  const auto target = updates ? local_->shared(request.output, bytes) : scatters ? nullptr : buffer;
  co_await open(request, buffer.get(), target.get());
  co_await agree(request);

  if (scatters) {
    // Of each piece of every rank's block that rank is the owner.
    const std::int64_t piece = std::max<std::int64_t>(kPieceBytes / static_cast<std::int64_t>(element) / size_, 1);
    for (std::int64_t begin = 0; begin < descriptor.count; begin += piece) {
      const std::int64_t count = std::min(piece, descriptor.count - begin);
      std::vector<Slice> ranges;
      for (int owner = 0; owner < size_; ++owner) {
        ranges.push_back({owner * descriptor.count + begin, owner * descriptor.count + begin + count});
      }
      co_await reduce_ranges(request, request.output + static_cast<std::size_t>(begin) * element, ranges);
      co_await Breathe{};
    }
  } else {
    for (const auto& ranges : ranges_of_pieces(descriptor.count, element)) {
      co_await reduce_ranges(request, nullptr, ranges);
      co_await Breathe{};
    }
  }
  co_await close(request);
  const bool has_result = updates || descriptor.collective == Collective::AllReduce || descriptor.root == rank_;
  if (has_result && target && target.get() != request.output) co_await copy(request.output, target.get(), bytes);
}

// `output` is where the own range of a reduce_scatter goes.
Task HierGroup::reduce_ranges(const Request& request, std::byte* output, const std::vector<Slice>& ranges) {
  const Descriptor& descriptor = request.descriptor;
  const Lane lane = request.lane;
  const auto channel = Wire::channel_of(lane);
  const std::size_t element = request.element_bytes;
  const std::size_t partial_element = c10::elementSize(accumulate_type(descriptor.type));
  const TreeReduction reduction{descriptor.type, descriptor.op, size_};
  const bool updates = descriptor.collective == Collective::ReduceUpdate;
  const bool to_all = updates || descriptor.collective == Collective::AllReduce;
  const int root_host = descriptor.collective == Collective::Reduce ? host_of(descriptor.root) : -1;
  const auto range_of = [&](int owner) { return ranges[static_cast<std::size_t>(owner)]; };
  const auto new_buffer = [](std::size_t bytes) {
    return std::shared_ptr<std::byte>(new std::byte[std::max<std::size_t>(bytes, 1)],
                                      std::default_delete<std::byte[]>());
  };
  const auto nodes_on = [&](int host) -> const std::vector<TreeNode>& {
    return nodes_[static_cast<std::size_t>(host)];
  };

  // This host's partial results of a range: one run of numbers per node it holds.
  std::vector<int> first_leaf;
  std::vector<const void*> inputs;
  const std::int64_t piece = piece_of(element);
  // Of what `first_leaf` and `inputs` say, in pieces, between which other collectives have a turn.
  const auto reduce_inputs = [&](TreeNode node, Stage from, std::byte* out, Stage to, std::int64_t count) -> Task {
    const std::size_t from_bytes = from == Stage::Elements ? element : partial_element;
    const std::size_t to_bytes = to == Stage::Elements ? element : partial_element;
    for (std::int64_t done = 0; done < count; done += piece) {
      const std::int64_t now = std::min(piece, count - done);
      void* const sum = out;
      reduce_tree(reduction, node, first_leaf, inputs, from, {&sum, 1}, to, now);
      for (auto& input : inputs)
        input = static_cast<const std::byte*>(input) + static_cast<std::size_t>(now) * from_bytes;
      out += static_cast<std::size_t>(now) * to_bytes;
      co_await Breathe{};
    }
  };
  const auto reduce_here = [&](Slice range, std::byte* partials) -> Task {
    for (const TreeNode& node : nodes_on(my_host())) {
      first_leaf.clear();
      inputs.clear();
      for (int leaf = node.first; leaf < node.end(); ++leaf) {
        first_leaf.push_back(leaf);
        inputs.push_back(input_of(lane, map_.index_of[static_cast<std::size_t>(leaf)]) +
                         static_cast<std::size_t>(range.begin) * element);
      }
      co_await reduce_inputs(node, Stage::Elements, partials, Stage::Partials, range.count());
      partials += static_cast<std::size_t>(range.count()) * partial_element;
    }
  };
  const auto partial_bytes = [&](int host, const Slice& range) {
    return nodes_on(host).size() * static_cast<std::size_t>(range.count()) * partial_element;
  };
  const auto store_here = [&](Slice range, const std::byte* values) -> Task {
    for (int peer = 0; peer < local_size(); ++peer) {
      if (!to_all && ranks_on(my_host())[static_cast<std::size_t>(peer)] != descriptor.root) continue;
      std::byte* target = output_of(lane, peer) + static_cast<std::size_t>(range.begin) * element;
      co_await copy(target, values, static_cast<std::size_t>(range.count()) * element);
    }
  };

  // 1. Ask for the other hosts' partials of the own range, send them ours of theirs.
  const Slice mine = range_of(rank_);
  std::vector<std::shared_ptr<std::byte>> partials(static_cast<std::size_t>(map_.hosts()));
  WireMessages incoming, outgoing;
  for (int host = 0; host < map_.hosts(); ++host) {
    auto& buffer = partials[static_cast<std::size_t>(host)] = new_buffer(partial_bytes(host, mine));
    if (host == my_host() || mine.count() == 0) continue;
    incoming.add(wire_->receive(wire_group_, channel, world_rank(partner(host, rank_)), buffer.get(),
                                partial_bytes(host, mine), buffer));
  }
  for (const int owner : clients()) {
    const Slice range = range_of(owner);
    if (range.count() == 0) continue;
    const auto buffer = new_buffer(partial_bytes(my_host(), range));
    co_await reduce_here(range, buffer.get());
    outgoing.add(
        wire_->send(wire_group_, channel, world_rank(owner), buffer.get(), partial_bytes(my_host(), range), buffer));
  }
  co_await reduce_here(mine, partials[static_cast<std::size_t>(my_host())].get());
  co_await incoming.arrived();

  // 2. Combine all hosts' nodes, in the order of the tree.
  struct Part {
    int first_leaf;
    const void* values;
  };
  std::vector<Part> parts;
  for (int host = 0; host < map_.hosts(); ++host) {
    const std::byte* values = partials[static_cast<std::size_t>(host)].get();
    for (const TreeNode& node : nodes_on(host)) {
      parts.push_back({node.first, values});
      values += static_cast<std::size_t>(mine.count()) * partial_element;
    }
  }
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.first_leaf < b.first_leaf; });
  first_leaf.clear();
  inputs.clear();
  for (const Part& part : parts) {
    first_leaf.push_back(part.first_leaf);
    inputs.push_back(part.values);
  }
  const auto result = new_buffer(static_cast<std::size_t>(mine.count()) * element);
  co_await reduce_inputs({0, size_}, Stage::Partials, output != nullptr ? output : result.get(), Stage::Elements,
                         mine.count());

  if (updates) {
    std::byte* const target = request.output + static_cast<std::size_t>(mine.begin) * element;
    for (std::int64_t done = 0; done < mine.count(); done += piece) {
      const std::int64_t now = std::min(piece, mine.count() - done);
      std::byte* const values = result.get() + static_cast<std::size_t>(done) * element;
      request.update(mine.begin + done, now, values);
      copy_bytes(values, target + static_cast<std::size_t>(done) * element, static_cast<std::size_t>(now) * element);
      co_await Breathe{};
    }
  }

  // 3. The finished range goes where it belongs.
  if (output == nullptr && (to_all || root_host == my_host())) co_await store_here(mine, result.get());
  WireMessages finished;
  struct Finished {
    Slice range;
    std::shared_ptr<std::byte> values;
  };
  std::vector<Finished> arriving;
  if (output == nullptr) {
    for (int host = 0; host < map_.hosts(); ++host) {
      if (host == my_host() || mine.count() == 0 || !(to_all || root_host == host)) continue;
      outgoing.add(wire_->send(wire_group_, channel, world_rank(partner(host, rank_)), result.get(),
                               static_cast<std::size_t>(mine.count()) * element, result));
    }
    for (const int owner : clients()) {
      const Slice range = range_of(owner);
      if (range.count() == 0 || !(to_all || root_host == my_host())) continue;
      const std::size_t bytes = static_cast<std::size_t>(range.count()) * element;
      arriving.push_back({range, new_buffer(bytes)});
      finished.add(wire_->receive(wire_group_, channel, world_rank(owner), arriving.back().values.get(), bytes,
                                  arriving.back().values));
    }
  }
  co_await finished.arrived();
  for (const auto& [range, values] : arriving) co_await store_here(range, values.get());
  co_await outgoing.arrived();
}

}  // namespace lockstep::comm
