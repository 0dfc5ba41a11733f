// lockstep/comm/line_forwarder.h
//
// Passes what a process writes on to one of our streams, in whole lines, so that
// the lines of several processes do not mix. A line ends with \n or \r (progress
// bars); one that grows over 1 MiB is passed on in pieces, and a last line without
// an end as it is. Never blocks: while our stream is full nothing is read, so that
// the process waits for its reader as if it wrote there itself.
#pragma once

#include <string>

#include "lockstep/comm/outlet.h"
#include "lockstep/core/handle.h"

namespace lockstep::comm {

class LineForwarder {
 public:
  /// `prefix` goes in front of every line; `to` must outlive this.
  LineForwarder(FileDescriptor from, Outlet& to, std::string prefix);

  /// To poll; -1 (which poll skips) once the source has ended and while `to` is full.
  int descriptor() const noexcept { return to_.full() ? -1 : from_.get(); }
  bool ended() const noexcept { return !from_; }
  /// Reads once, without blocking; false if nothing was there or `to` is full.
  bool take();
  /// Writes the lines that are complete. Where nobody reads our stream any more the source is
  /// closed: its writer then finds out as if it wrote there itself.
  void pass_on();

 private:
  std::string with_prefix(std::string_view text);

  FileDescriptor from_;
  Outlet& to_;
  std::string prefix_;
  std::string text_;
  bool at_start_ = true;
  bool after_return_ = false;
};

}  // namespace lockstep::comm
