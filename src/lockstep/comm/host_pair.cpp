// Send and receive between two ranks of a HostGroup. A message in shared memory is
// copied once, by the receiver; private memory goes through two windows of the
// sender. Messages between two ranks arrive in the order they were sent.
#include <algorithm>
#include <cstring>

#include "lockstep/comm/host_group.h"

namespace lockstep::comm {

Task HostGroup::send(const Request& request) {
  const Descriptor& descriptor = request.descriptor;
  PairLine& pair = channel_.pair(rank_, descriptor.root);
  PairState& state = pairs_[static_cast<std::size_t>(descriptor.root)];
  const std::size_t bytes = static_cast<std::size_t>(descriptor.count) * request.element_bytes;
  const auto taken = [&pair](std::uint64_t pieces) {
    return Until([&pair, pieces] { return pair.taken.load(std::memory_order_acquire) >= pieces; });
  };
  co_await taken(state.sent);

  pair.count = descriptor.count;
  pair.type = static_cast<std::int32_t>(descriptor.type);
  const std::uint64_t shared = endpoint_->address_of_buffer(request.input);
  if (shared != 0 || bytes == 0) {
    pair.address = shared;
    pair.window_bytes = 0;
    pair.sent.store(++state.sent, std::memory_order_release);
    endpoint_->segment().notify();
    co_await taken(state.sent);
    co_return;
  }

  const std::size_t window = endpoint_->tuning().window_bytes;
  if (!state.windows) state.windows = endpoint_->allocate(2 * window);
  pair.address = endpoint_->address_of(state.windows.get());
  pair.window_bytes = window;
  for (std::size_t at = 0; at < bytes; at += window) {
    if (state.sent >= 1) co_await taken(state.sent - 1);
    std::memcpy(state.windows.get() + (state.sent & 1) * window, request.input + at, std::min(window, bytes - at));
    pair.sent.store(++state.sent, std::memory_order_release);
    endpoint_->segment().notify();
    co_await Breathe{};
  }
}

Task HostGroup::receive(const Request& request) {
  const Descriptor& descriptor = request.descriptor;
  PairLine& pair = channel_.pair(descriptor.root, rank_);
  PairState& state = pairs_[static_cast<std::size_t>(descriptor.root)];
  const std::size_t bytes = static_cast<std::size_t>(descriptor.count) * request.element_bytes;
  const auto sent = [&pair](std::uint64_t pieces) {
    return Until([&pair, pieces] { return pair.sent.load(std::memory_order_acquire) >= pieces; });
  };
  co_await sent(state.received + 1);
  if (pair.count != descriptor.count || pair.type != static_cast<std::int32_t>(descriptor.type)) {
    endpoint_->fail_for_all(describe_mismatch(world_rank(rank_), {descriptor.type, descriptor.count},
                                              world_rank(descriptor.root),
                                              {static_cast<c10::ScalarType>(pair.type), pair.count}));
  }
  const std::size_t window = pair.window_bytes;
  const std::byte* source = endpoint_->pointer_at(pair.address);
  if (window == 0) {
    const std::size_t piece = endpoint_->tuning().piece_bytes;
    for (std::size_t at = 0; at < bytes; at += piece) {
      std::memcpy(request.output + at, source + at, std::min(piece, bytes - at));
      co_await Breathe{};
    }
    pair.taken.store(++state.received, std::memory_order_release);
    endpoint_->segment().notify();
    co_return;
  }
  for (std::size_t at = 0; at < bytes; at += window) {
    co_await sent(state.received + 1);
    std::memcpy(request.output + at, source + (state.received & 1) * window, std::min(window, bytes - at));
    pair.taken.store(++state.received, std::memory_order_release);
    endpoint_->segment().notify();
    co_await Breathe{};
  }
}

}  // namespace lockstep::comm
