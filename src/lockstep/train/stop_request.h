// lockstep/train/stop_request.h
//
// Whether this process was asked to save and end: by SIGTERM, or by SIGUSR1, which Slurm
// sends some time before the limit (--signal=USR1@120). Handlers are set from construction to
// destruction, of one of them at a time.
#pragma once

#include <signal.h>

#include <array>

namespace lockstep::train {

class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  bool made() const noexcept;

 private:
  std::array<struct sigaction, 2> before_{};
};

}  // namespace lockstep::train
