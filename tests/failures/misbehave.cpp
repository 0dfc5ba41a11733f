// A program whose rank CULPRIT misbehaves: `misbehave MODE [CULPRIT]`, by default the
// last rank. It says "deed" just before; ranks that end with an error say "released".
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lockstep/comm/environment.h"
#include "lockstep/comm/runtime.h"
#include "lockstep/comm/segment.h"
#include "lockstep/core/error.h"
#include "lockstep/profile/span.h"

namespace {

using lockstep::comm::Communicator;
using lockstep::comm::ReduceOp;

// More than any tuning moves on the calling thread, in many pieces.
constexpr std::int64_t kLarge = 1 << 20;

void say(const std::string& text) {
  std::cout << text + "\n";
  std::cout.flush();
}

at::Tensor ones(std::int64_t count, at::ScalarType type = at::kFloat) {
  return at::ones({count}, at::TensorOptions(type));
}

void all_reduce(Communicator& world, const at::Tensor& tensor, ReduceOp op = ReduceOp::Sum,
                const char* name = nullptr) {
  world.all_reduce_(tensor, op, {.name = name}).wait();
}

void broadcast_from(Communicator& world, int root) {
  at::Tensor tensor = ones(100);
  world.broadcast_(tensor, root).wait();
}

void in_order(Communicator& world, const char* first, const char* second) {
  all_reduce(world, ones(100), ReduceOp::Sum, first);
  all_reduce(world, ones(100), ReduceOp::Sum, second);
}

/// What the culprit does, and what the others do meanwhile.
struct Mode {
  std::function<void(Communicator&)> culprit;
  std::function<void(Communicator&)> others = [](Communicator& world) {
    all_reduce(world, ones(100), ReduceOp::Sum, "gradients");
  };
};

void loop(Communicator& world) {
  at::Tensor tensor = world.empty({4 * kLarge}, at::kFloat).fill_(0);
  // Long enough for the watchdog to see it there.
  const auto start = std::chrono::steady_clock::now();
  for (bool said = false;;) {
    const lockstep::profile::Span span("train step");
    all_reduce(world, tensor, ReduceOp::Sum, "gradients");
    if (said || std::chrono::steady_clock::now() - start < std::chrono::milliseconds(300)) continue;
    said = true;
    say(fmt::format("looping {}", world.rank()));
  }
}

/// The first rank, whose memory the group lies in, ends while the last one stands still in a barrier
/// that all have come to.
void end_early(Communicator& world) {
  const auto group = world.duplicate();
  const pid_t last = std::stoi(group->gather_bytes(std::to_string(getpid())).back());
  if (group->rank() == 0) {
    usleep(300'000);  // until the others wait
    kill(last, SIGSTOP);
    if (fork() == 0) {
      usleep(500'000);
      kill(last, SIGCONT);
      _exit(0);
    }
  }
  group->barrier();
}

const std::map<std::string, Mode> kModes = {
    {"operation", {[](Communicator& world) { world.barrier(); }}},
    {"dtype", {[](Communicator& world) { all_reduce(world, ones(100, at::kInt), ReduceOp::Sum, "gradients"); }}},
    {"count", {[](Communicator& world) { all_reduce(world, ones(101), ReduceOp::Sum, "gradients"); }}},
    {"reduction", {[](Communicator& world) { all_reduce(world, ones(100), ReduceOp::Max, "gradients"); }}},
    {"root",
     {[](Communicator& world) { broadcast_from(world, 1); }, [](Communicator& world) { broadcast_from(world, 0); }}},
    {"name", {[](Communicator& world) { all_reduce(world, ones(100), ReduceOp::Sum, "weights"); }}},
    {"order",
     {[](Communicator& world) { in_order(world, "b", "a"); }, [](Communicator& world) { in_order(world, "a", "b"); }}},
    {"lanes", {[](Communicator& world) { all_reduce(world, ones(kLarge), ReduceOp::Sum, "gradients"); }}},
    {"large",
     {[](Communicator& world) { all_reduce(world, ones(kLarge + 1)); },
      [](Communicator& world) { all_reduce(world, ones(kLarge)); }}},
    {"leave", {[](Communicator&) {}}},
    {"throw", {[](Communicator&) { lockstep::fail(lockstep::Fault::Data, "shard 7 is torn"); }}},
    {"misuse", {[](Communicator&) { lockstep::fail(lockstep::Fault::Usage, "no such dataset"); }}},
    {"foreign", {[](Communicator&) { throw std::out_of_range("label 11 of 10"); }}},
    {"number", {[](Communicator&) { throw 42; }}},
    {"torch", {[](Communicator&) { ones(2).add_(ones(3)); }}},
    {"stuck", {[](Communicator&) {
       const lockstep::profile::Span span("load batch");
       for (volatile bool on = true; on;) {
       }
     }}},
    {"stopped", {[](Communicator&) {
       const lockstep::profile::Span span("load batch");
       usleep(300'000);  // until the span is on the status page
       raise(SIGSTOP);
     }}},
    {"stopped_late",
     {[](Communicator&) {
        const lockstep::profile::Span span("tidy up");
        usleep(300'000);
        raise(SIGSTOP);
      },
      [](Communicator&) {}}},
    {"slow_end",
     {[](Communicator&) {
        const lockstep::profile::Span span("tidy up");
        usleep(4'000'000);
      },
      [](Communicator&) {}}},
    {"early_end", {end_early, end_early}},
    {"loop", {loop, loop}},
};

/// Makes the launcher look like one of another version.
void forge_version() {
  const int segment = lockstep::comm::environment::get_int(lockstep::comm::environment::kSegment, -1, 0, 1 << 20);
  const char other[] = "9.9.9";
  if (pwrite(segment, other, sizeof other, offsetof(lockstep::comm::SegmentHeader, version)) < 0) std::abort();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  if (name == "other_version") forge_version();
  const auto mode = kModes.find(name == "other_version" ? "loop" : name);
  if (mode == kModes.end()) {
    std::cerr << "unknown mode '" << name << "'\n";
    return 2;
  }
  return lockstep::comm::run_program(argc, argv, [&](lockstep::comm::Runtime& runtime) {
    Communicator& world = runtime.world();
    try {
      all_reduce(world, ones(10), ReduceOp::Sum, "warm up");
      all_reduce(world, ones(kLarge), ReduceOp::Sum, "warm up");
      if (world.rank() == (argc > 2 ? std::atoi(argv[2]) : world.size() - 1)) {
        say("deed");
        mode->second.culprit(world);
      } else {
        mode->second.others(world);
      }
    } catch (const lockstep::Error& error) {
      say(fmt::format("released: {}", error.what()));
      throw;
    }
  });
}
