#include "lockstep/comm/input_pump.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "lockstep/core/error.h"

namespace lockstep::comm {
namespace {

bool in_foreground() { return tcgetpgrp(STDIN_FILENO) == getpgrp(); }

}  // namespace

InputPump::InputPump() {
  if (isatty(STDIN_FILENO) == 0) {
    inherited_ = STDIN_FILENO;
    return;
  }
  if (!in_foreground()) return;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail_errno("cannot make a pipe", errno);
  child_end_ = FileDescriptor(ends[0]);
  our_end_ = FileDescriptor(ends[1]);
  fcntl(our_end_.get(), F_SETFL, O_NONBLOCK);
}

pollfd InputPump::wanted() const noexcept {
  if (!our_end_) return {-1, 0, 0};
  return typed_.empty() ? pollfd{STDIN_FILENO, POLLIN, 0} : pollfd{our_end_.get(), POLLOUT, 0};
}

void InputPump::move() {
  if (!our_end_) return;
  if (typed_.empty()) {
    std::array<char, 4096> chunk;
    // Sent to the background meanwhile, reading would stop us.
    const ssize_t got = in_foreground() ? read(STDIN_FILENO, chunk.data(), chunk.size()) : 0;
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got <= 0) return our_end_.reset();
    typed_.assign(chunk.data(), static_cast<std::size_t>(got));
  }
  const ssize_t written = write(our_end_.get(), typed_.data(), typed_.size());
  if (written >= 0) {
    typed_.erase(0, static_cast<std::size_t>(written));
  } else if (errno != EAGAIN && errno != EINTR) {
    our_end_.reset();  // the child reads no more
  }
}

}  // namespace lockstep::comm
