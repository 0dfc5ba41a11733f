// lockstep/comm/memory_wire.h
//
// For tests: a Wire between threads of one process, so that collectives over several
// hosts run under a debugger and the sanitizers.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "lockstep/comm/wire.h"

namespace lockstep::comm::testing {

class MemoryWire final : public Wire {
 public:
  class Hub;
  static std::shared_ptr<Hub> make_hub();
  MemoryWire(std::shared_ptr<Hub> hub, int rank) : hub_(std::move(hub)), rank_(rank) {}

  std::unique_ptr<Message> send(int group, Channel channel, int to, const void* data, std::size_t bytes,
                                std::shared_ptr<const void> owner) override;
  std::unique_ptr<Message> receive(int group, Channel channel, int from, void* data, std::size_t bytes,
                                   std::shared_ptr<const void> owner) override;

 private:
  std::shared_ptr<Hub> hub_;
  int rank_;
};

}  // namespace lockstep::comm::testing
