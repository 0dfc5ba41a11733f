#include "lockstep/train/stop_request.h"

#include <signal.h>

#include <array>
#include <atomic>
#include <mutex>

namespace lockstep::train {
namespace {

constexpr std::array<int, 2> kSignals = {SIGTERM, SIGUSR1};
std::atomic<bool> asked = false;
std::mutex mutex;  // of what follows
int alive = 0;
std::array<struct sigaction, kSignals.size()> before;

}  // namespace

StopRequest::StopRequest() {
  const std::lock_guard lock(mutex);
  if (alive++ > 0) return;
  asked = false;
  struct sigaction action{};
  action.sa_handler = [](int) { asked = true; };
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &before[i]);
}

StopRequest::~StopRequest() {
  const std::lock_guard lock(mutex);
  if (--alive > 0) return;
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before[i], nullptr);
}

bool StopRequest::made() const noexcept { return asked; }

}  // namespace lockstep::train
