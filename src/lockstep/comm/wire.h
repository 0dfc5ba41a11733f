// lockstep/comm/wire.h
//
// Messages between processes of a run, on any hosts. Messages of one channel
// between two ranks arrive in the order they were sent. Any thread may call.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "lockstep/comm/types.h"

namespace lockstep::comm {

class Wire {
 public:
  /// Streams that must not wait for each other.
  enum Channel : int { kUrgent, kBulk, kPairs, kControl };
  static constexpr int kChannels = 4;
  static Channel channel_of(Lane lane) noexcept { return lane == Lane::Urgent ? kUrgent : kBulk; }

  /// A message under way. Destroying one that is not done keeps its `owner` alive for ever:
  /// the network may still read or write the memory. Without an owner the caller sees to that;
  /// for the tensors of a collective Endpoint::outlive does.
  class Message {
   public:
    virtual ~Message() = default;
    /// Throws if the message cannot arrive.
    virtual bool done() = 0;
  };

  /// Numbers for groups. All groups of a process take them here: two that share ranks must
  /// never have the same, however they descend from each other.
  class GroupNumbers {
   public:
    /// The lowest that no group of this process has had.
    int next() const noexcept { return next_.load(); }
    /// False if `number` or a higher one was taken meanwhile, by another thread's group.
    bool take(int number) noexcept {
      int next = next_.load();
      while (next <= number) {
        if (next_.compare_exchange_weak(next, number + 1)) return true;
      }
      return false;
    }

   private:
    std::atomic<int> next_{0};
  };

  virtual ~Wire() = default;
  GroupNumbers& group_numbers() noexcept { return group_numbers_; }
  /// `group` keeps groups of ranks apart; ranks are those of the world.
  virtual std::unique_ptr<Message> send(int group, Channel channel, int to, const void* data, std::size_t bytes,
                                        std::shared_ptr<const void> owner) = 0;
  virtual std::unique_ptr<Message> receive(int group, Channel channel, int from, void* data, std::size_t bytes,
                                           std::shared_ptr<const void> owner) = 0;

 private:
  GroupNumbers group_numbers_;
};

}  // namespace lockstep::comm
