// lockstep/comm/input_pump.h
//
// Our standard input for one child in another process group. A file or a pipe it
// simply inherits; a terminal would stop it for reading from the background, so
// there we read in the foreground and pass on what is typed.
#pragma once

#include <poll.h>

#include <string>

#include "lockstep/core/handle.h"

namespace lockstep::comm {

class InputPump {
 public:
  InputPump();

  /// What the child gets as standard input; -1: nothing.
  int for_child() const noexcept { return child_end_ ? child_end_.get() : inherited_; }
  /// To be called when the child has it.
  void child_started() noexcept { child_end_.reset(); }
  /// What to wait for before move(); a negative descriptor: nothing.
  pollfd wanted() const noexcept;
  void move();

 private:
  int inherited_ = -1;
  FileDescriptor child_end_;
  FileDescriptor our_end_;
  std::string typed_;
};

}  // namespace lockstep::comm
