// lockstep/train/run_lock.h
//
// While it lives, no other process trains in the folder of the run: two would take away each
// other's checkpoints. Processes that come of this one hold it too, so that it outlives one that is killed
// until the last of them has gone.
#pragma once

#include <string>

#include "lockstep/core/handle.h"

namespace lockstep::train {

class RunLock {
 public:
  /// Fault::Usage, naming the process that has it.
  explicit RunLock(const std::string& folder);
  /// Whether a process has it. Where that cannot be asked, as from another user's account, one may.
  static bool is_held(const std::string& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  FileDescriptor file_;
};

}  // namespace lockstep::train
