// lockstep/train/stop_request.h
//
// Whether this process was asked to save and end: by SIGTERM, by SIGUSR1, which Slurm
// sends some time before the limit (--signal=B:USR1@120), or by Ctrl-C, of which the second ends it at
// once. Handlers are set while there is one of them in the process; what was asked for meanwhile
// holds for all.
#pragma once

namespace lockstep::train {

class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  bool made() const noexcept;
};

}  // namespace lockstep::train
