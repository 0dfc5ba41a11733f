#include "lockstep/comm/memory_wire.h"

#include <chrono>
#include <cstring>
#include <optional>
#include <string>

#include "lockstep/core/error.h"

namespace lockstep::comm::testing {

class MemoryWire::Hub {
 public:
  using Stream = std::tuple<int, int, int, int>;  // group, channel, from, to

  std::mutex mutex;
  std::map<Stream, std::deque<std::string>> waiting;
  std::map<Stream, std::uint64_t> taken;      // messages handed out
  std::map<Stream, std::uint64_t> asked_for;  // receives posted
};

std::shared_ptr<MemoryWire::Hub> MemoryWire::make_hub() { return std::make_shared<Hub>(); }

std::unique_ptr<Wire::Message> MemoryWire::send(int group, Channel channel, int to, const void* data, std::size_t bytes,
                                                std::shared_ptr<const void>) {
  struct Sent final : Message {
    bool done() override { return true; }
  };
  const std::lock_guard lock(hub_->mutex);
  hub_->waiting[{group, channel, rank_, to}].emplace_back(static_cast<const char*>(data), bytes);
  return std::make_unique<Sent>();
}

std::unique_ptr<Wire::Message> MemoryWire::receive(int group, Channel channel, int from, void* data, std::size_t bytes,
                                                   std::shared_ptr<const void>) {
  // Receives are served in the order they were posted, as between real hosts.
  struct Received final : Message {
    std::shared_ptr<Hub> hub;
    Hub::Stream stream;
    std::uint64_t ticket = 0;
    void* data = nullptr;
    std::size_t bytes = 0;
    bool arrived = false;
    std::optional<std::chrono::steady_clock::time_point> wrong_since;

    // Ranks that disagree send such messages, and name each other soon.
    bool wrong_size() {
      const auto now = std::chrono::steady_clock::now();
      if (!wrong_since) wrong_since = now;
      if (now - *wrong_since > std::chrono::seconds(2))
        fail(Fault::Internal, "a message of another size than its receive");
      return false;
    }

    bool done() override {
      if (arrived) return true;
      const std::lock_guard lock(hub->mutex);
      auto& queue = hub->waiting[stream];
      if (queue.empty() || hub->taken[stream] != ticket) return false;
      if (queue.front().size() != bytes) return wrong_size();
      std::memcpy(data, queue.front().data(), bytes);
      queue.pop_front();
      ++hub->taken[stream];
      return arrived = true;
    }
  };
  auto message = std::make_unique<Received>();
  message->hub = hub_;
  message->stream = {group, channel, from, rank_};
  message->data = data;
  message->bytes = bytes;
  const std::lock_guard lock(hub_->mutex);
  message->ticket = hub_->asked_for[message->stream]++;
  return message;
}

}  // namespace lockstep::comm::testing
