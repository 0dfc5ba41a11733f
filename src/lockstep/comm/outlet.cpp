#include "lockstep/comm/outlet.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace lockstep::comm {
namespace {

constexpr std::size_t kMostKept = std::size_t{256} << 10;

}  // namespace

Outlet::Outlet(int stream) : stream_(stream) {
  struct stat kind{};
  if (fstat(stream, &kind) != 0) return;
  is_file_ = S_ISREG(kind.st_mode);
  is_socket_ = S_ISSOCK(kind.st_mode);
  if (!S_ISFIFO(kind.st_mode) && isatty(stream) == 0) return;
  // O_NONBLOCK belongs to what open() made, which a shell and its children share; a second
  // opening is ours alone. Not allowed where another user made the pipe.
  const std::string path = "/proc/self/fd/" + std::to_string(stream);
  own_ = FileDescriptor(open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

bool Outlet::full() const noexcept { return kept_.size() - gone_ >= kMostKept; }

void Outlet::put(std::string_view text) {
  if (closed_) return;
  kept_ += text;
  flush();
}

void Outlet::flush() {
  while (!empty() && !closed_) {
    const ssize_t written = write_some(std::string_view(kept_).substr(gone_));
    if (written >= 0) {
      gone_ += static_cast<std::size_t>(written);
      written_bytes_ += static_cast<std::size_t>(written);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      closed_ = true;
      if (errno != EPIPE) lost_ = errno;
    }
  }
  if (closed_) gone_ = kept_.size();
  // Not after every write: moving the rest costs as much as writing it.
  if (empty() || gone_ >= kMostKept) {
    kept_.erase(0, gone_);
    gone_ = 0;
  }
}

ssize_t Outlet::write_some(std::string_view text) const noexcept {
  if (is_socket_) return send(stream_, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (own_ || is_file_) return write(descriptor(), text.data(), text.size());
  // A pipe that is ready takes this much at once.
  pollfd state{stream_, POLLOUT, 0};
  if (poll(&state, 1, 0) == 0) {
    errno = EAGAIN;
    return -1;
  }
  return write(stream_, text.data(), text.size() < PIPE_BUF ? text.size() : PIPE_BUF);
}

}  // namespace lockstep::comm
