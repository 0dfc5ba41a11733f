#include "lockstep/train/stop_request.h"

#include <atomic>

namespace lockstep::train {
namespace {

constexpr std::array<int, 2> kSignals = {SIGTERM, SIGUSR1};
std::atomic<bool> asked = false;

}  // namespace

StopRequest::StopRequest() {
  asked = false;
  struct sigaction action{};
  action.sa_handler = [](int) { asked = true; };
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &before_[i]);
}

StopRequest::~StopRequest() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

bool StopRequest::made() const noexcept { return asked; }

}  // namespace lockstep::train
