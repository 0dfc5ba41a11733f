// lockstep/comm/wire.h
//
// Messages between processes of a run, on any hosts. Messages of one channel
// between two ranks arrive in the order they were sent. Any thread may call.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace lockstep::comm {

class Wire {
 public:
  /// Streams that must not wait for each other.
  enum Channel : int { kUrgent, kBulk, kPairs, kControl };
  static constexpr int kChannels = 4;

  /// A message under way. Destroying one that is not done keeps its `owner` alive for ever:
  /// the network may still read or write the memory.
  class Message {
   public:
    virtual ~Message() = default;
    /// Throws if the message cannot arrive.
    virtual bool done() = 0;
  };

  virtual ~Wire() = default;
  /// `group` keeps groups of ranks apart; ranks are those of the world.
  virtual std::unique_ptr<Message> send(int group, Channel channel, int to, const void* data, std::size_t bytes,
                                        std::shared_ptr<const void> owner) = 0;
  virtual std::unique_ptr<Message> receive(int group, Channel channel, int from, void* data, std::size_t bytes,
                                           std::shared_ptr<const void> owner) = 0;
};

}  // namespace lockstep::comm
