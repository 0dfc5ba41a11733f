#include "lockstep/comm/guardian.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <vector>

#include "lockstep/core/error.h"

namespace lockstep::comm {
namespace {

constexpr pid_t kForgetAll = 0;

void close_all_but(int kept) {
  // Standard streams stay, as nothing: a pipe of ours must not outlive us.
  const int nothing = open("/dev/null", O_RDWR);
  for (int stream = 0; stream <= 2; ++stream) dup2(nothing, stream);
  if (kept > 3) syscall(SYS_close_range, 3U, static_cast<unsigned>(kept - 1), 0U);
  if (syscall(SYS_close_range, static_cast<unsigned>(kept + 1), UINT_MAX, 0U) == 0) return;
  // Kernels before 5.9.
  constexpr long kMost = 65536;
  for (int file = 3; file < std::min(sysconf(_SC_OPEN_MAX), kMost); ++file) {
    if (file != kept) close(file);
  }
}

[[noreturn]] void watch(int pipe) {
  setsid();
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  prctl(PR_SET_NAME, "lockstep-guard");
  close_all_but(pipe);
  std::vector<pid_t> groups;
  for (pid_t group = 0;;) {
    const ssize_t got = read(pipe, &group, sizeof group);
    if (got < 0 && errno == EINTR) continue;
    if (got != static_cast<ssize_t>(sizeof group)) break;  // every writer has gone
    if (group == kForgetAll) {
      groups.clear();
    } else {
      groups.push_back(group);
    }
  }
  for (const pid_t group : groups) kill(-group, SIGKILL);
  _exit(0);
}

// Shorter than PIPE_BUF, so messages of several writers never mix.
void tell(int pipe, pid_t message) noexcept {
  while (write(pipe, &message, sizeof message) < 0 && errno == EINTR) {
  }
}

}  // namespace

Guardian::Guardian() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail_errno("cannot make a pipe", errno);
  FileDescriptor reading(ends[0]);
  pipe_ = FileDescriptor(ends[1]);
  pid_ = fork();
  if (pid_ < 0) fail_errno("cannot start a process", errno);
  if (pid_ == 0) watch(reading.get());
}

Guardian::~Guardian() {
  pipe_.reset();
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Guardian::guard(pid_t group) const noexcept { tell(pipe_.get(), group); }

void Guardian::forget_all() const noexcept { tell(pipe_.get(), kForgetAll); }

}  // namespace lockstep::comm
