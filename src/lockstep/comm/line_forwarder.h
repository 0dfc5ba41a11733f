// lockstep/comm/line_forwarder.h
//
// Passes what a process writes on to one of our streams, in whole lines, so that
// the lines of several processes do not mix. A line ends with \n or \r (progress
// bars); one that grows over 1 MiB is passed on in pieces, and a last line without
// an end as it is. Blocks while our stream does.
#pragma once

#include <string>

#include "lockstep/core/handle.h"

namespace lockstep::comm {

class LineForwarder {
 public:
  /// `prefix` goes in front of every line.
  LineForwarder(FileDescriptor from, int to, std::string prefix);

  /// To poll; -1 (which poll skips) once the source has ended.
  int descriptor() const noexcept { return from_.get(); }
  bool ended() const noexcept { return !from_; }
  /// Reads once, without blocking; false if nothing was there.
  bool take();
  /// Writes the lines that are complete. Where nobody reads our stream any more the source is
  /// closed: its writer then finds out as if it wrote there itself.
  void pass_on();

 private:
  std::string with_prefix(std::string_view text);

  FileDescriptor from_;
  int to_;
  std::string prefix_;
  std::string text_;
  bool at_start_ = true;
  bool after_return_ = false;
};

/// Writes all of `text`, whether `descriptor` blocks or not; false if nobody reads it.
bool write_all(int descriptor, std::string_view text);

}  // namespace lockstep::comm
