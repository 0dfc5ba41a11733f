// lockstep/comm/signal_inbox.h
//
// Signals of the process as messages to poll for, from construction to destruction:
// SIGCHLD, and of those that ask something (INT, TERM, HUP, USR1, USR2) the ones not
// ignored, so that nohup keeps its meaning. SIGPIPE becomes the EPIPE of the write.
#pragma once

#include <signal.h>

#include <vector>

#include "lockstep/core/handle.h"

namespace lockstep::comm {

class SignalInbox {
 public:
  SignalInbox();
  ~SignalInbox();
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;

  int descriptor() const noexcept { return file_.get(); }
  /// What has arrived; equal signals may have become one.
  std::vector<int> take();
  /// What a child should restore.
  const sigset_t& mask_before() const noexcept { return mask_before_; }

 private:
  sigset_t mask_before_;
  struct sigaction child_before_;
  FileDescriptor file_;
};

}  // namespace lockstep::comm
