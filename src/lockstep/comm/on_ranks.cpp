#include "lockstep/comm/on_ranks.h"

#include <gtest/gtest.h>

#include "lockstep/comm/runtime.h"
#include "lockstep/comm/thread_ranks.h"
#include "lockstep/comm/world.h"

namespace lockstep::comm::testing {
namespace {

Runtime& runtime() {
  static Runtime instance(0, nullptr);
  return instance;
}

}  // namespace

bool launched() {
  static const bool result = detect_world() != "self";
  return result;
}

std::ostream& operator<<(std::ostream& out, const Ranks& ranks) {
  return out << ranks.count << (ranks.private_buffers ? " private" : "");
}

std::vector<Ranks> cases() {
  if (launched()) return {{runtime().size(), false}};
  return {{1, false}, {2, false}, {3, false}, {4, false}, {8, false}, {2, true}, {3, true}};
}

void on_ranks(const Ranks& ranks, const std::function<void(Communicator&)>& body) {
  if (!launched()) {
    run_ranks(ranks.count, body, {.timeout_s = 30, .private_buffers = ranks.private_buffers});
    return;
  }
  ASSERT_EQ(ranks.count, runtime().size());
  body(runtime().world());
  runtime().world().barrier({.name = "end of test"});
}

}  // namespace lockstep::comm::testing
