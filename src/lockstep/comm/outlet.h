// lockstep/comm/outlet.h
//
// One of our standard streams, for a process that must not wait for whoever reads it
// (a pager, a terminal after Ctrl-S). What does not go at once is kept until flush().
// The stream is shared with other processes, so it is not made non-blocking.
#pragma once

#include <poll.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "lockstep/core/handle.h"

namespace lockstep::comm {

class Outlet {
 public:
  explicit Outlet(int stream);

  /// Writes `text` behind what is kept, now or later. Thrown away once nobody reads the stream.
  void put(std::string_view text);
  /// Writes what the reader takes now.
  void flush();
  bool empty() const noexcept { return gone_ == kept_.size(); }
  /// So much is kept that whoever puts should wait.
  bool full() const noexcept;
  /// Nothing is written to the stream any more.
  bool closed() const noexcept { return closed_; }
  /// Why, as an errno: what was put is lost. 0: nobody reads it, or all is well.
  int lost() const noexcept { return lost_; }
  std::size_t written_bytes() const noexcept { return written_bytes_; }
  /// What to wait for before flush(); a negative descriptor: nothing.
  pollfd wanted() const noexcept { return {empty() ? -1 : descriptor(), POLLOUT, 0}; }

 private:
  int descriptor() const noexcept { return own_ ? own_.get() : stream_; }
  ssize_t write_some(std::string_view text) const noexcept;

  int stream_;
  FileDescriptor own_;  // the same pipe or terminal, opened once more
  bool is_file_ = false;
  bool is_socket_ = false;
  bool closed_ = false;
  int lost_ = 0;
  std::string kept_;
  std::size_t gone_ = 0;  // bytes at its front that are written
  std::size_t written_bytes_ = 0;
};

}  // namespace lockstep::comm
