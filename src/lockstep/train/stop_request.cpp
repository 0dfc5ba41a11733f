#include "lockstep/train/stop_request.h"

#include <signal.h>

#include <array>
#include <atomic>
#include <mutex>

namespace lockstep::train {
namespace {

constexpr std::array<int, 3> kSignals = {SIGTERM, SIGUSR1, SIGINT};
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
  action.sa_handler = [](int number) {
    if (!asked.exchange(true) || number != SIGINT) return;
    // Who presses Ctrl-C twice does not want to wait.
    (void)::signal(SIGINT, SIG_DFL);
    (void)raise(SIGINT);
  };
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
