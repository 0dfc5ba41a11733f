#include "lockstep/comm/clock_offsets.h"

#include <time.h>

#include <limits>
#include <string>

#include <ATen/ATen.h>

namespace lockstep::comm {
namespace {

// The first one includes the wait for rank 0, which asks the others first.
constexpr int kRoundTrips = 8;

void answer(Communicator& group, int peer, const std::function<std::int64_t()>& clock) {
  at::Tensor time = at::empty({1}, at::kLong);
  for (int i = 0; i < kRoundTrips; ++i) {
    group.recv_(time, peer).wait();
    time.data_ptr<std::int64_t>()[0] = clock();
    group.send(time, peer).wait();
  }
}

std::int64_t ask(Communicator& group, const std::function<std::int64_t()>& clock) {
  at::Tensor time = at::zeros({1}, at::kLong);
  std::int64_t offset_ns = 0, best_ns = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < kRoundTrips; ++i) {
    const std::int64_t asked_ns = clock();
    group.send(time, 0).wait();
    group.recv_(time, 0).wait();
    const std::int64_t took_ns = clock() - asked_ns;
    if (took_ns >= best_ns) continue;
    best_ns = took_ns;
    offset_ns = time.data_ptr<std::int64_t>()[0] - (asked_ns + took_ns / 2);
  }
  return offset_ns;
}

}  // namespace

std::int64_t realtime_ns() noexcept {
  timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

std::vector<std::int64_t> clock_offsets(Communicator& group, const std::function<std::int64_t()>& clock) {
  std::int64_t mine = 0;
  if (group.rank() != 0) mine = ask(group, clock);
  for (int peer = 1; group.rank() == 0 && peer < group.size(); ++peer) answer(group, peer, clock);
  std::vector<std::int64_t> offsets;
  for (const auto& text : group.gather_bytes(std::to_string(mine))) offsets.push_back(std::stoll(text));
  return offsets;
}

}  // namespace lockstep::comm
