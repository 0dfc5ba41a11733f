// lockstep/comm/wire_messages.h
//
// The messages of one step of a collective over a Wire.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "lockstep/comm/task.h"
#include "lockstep/comm/wire.h"

namespace lockstep::comm {

class WireMessages {
 public:
  void add(std::unique_ptr<Wire::Message> message) { messages_.push_back(std::move(message)); }
  /// co_await messages.arrived().
  auto arrived() {
    return polled([this] {
      std::erase_if(messages_, [](const auto& message) { return message->done(); });
      return messages_.empty();
    });
  }

 private:
  std::vector<std::unique_ptr<Wire::Message>> messages_;
};

}  // namespace lockstep::comm
