#include "train/mpirun_child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include <fmt/format.h>

#include "lockstep/comm/signal_inbox.h"
#include "lockstep/core/error.h"

namespace lockstep::apps {
namespace {

[[noreturn]] void become_mpirun(const comm::LaunchOptions& options, const sigset_t& mask) {
  // Ctrl-C comes through the parent, and so once.
  (void)setpgid(0, 0);
  (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
  (void)sigprocmask(SIG_SETMASK, &mask, nullptr);
  // mpirun reads for its ranks, which want nothing; a process behind the terminal's would be stopped for it.
  if (const int nothing = open("/dev/null", O_RDONLY); nothing >= 0) (void)dup2(nothing, STDIN_FILENO);
  try {
    _exit(comm::launch(options));
  } catch (...) {
    const Error error = current_error();
    fmt::print(stderr, "lockstep: {}\n", error.what());
    std::fflush(stderr);
    _exit(error.exit_code());
  }
}

}  // namespace

int launch_on_hosts(const comm::LaunchOptions& options) {
  std::fflush(nullptr);  // the child would print it once more
  comm::SignalInbox signals;
  const pid_t child = fork();
  if (child < 0) fail_errno("cannot start a process", errno);
  if (child == 0) become_mpirun(options, signals.mask_before());
  for (int status = 0;;) {
    if (waitpid(child, &status, WNOHANG) == child) {
      return WIFEXITED(status) ? WEXITSTATUS(status) : exit_code::kSignal + WTERMSIG(status);
    }
    pollfd inbox{signals.descriptor(), POLLIN, 0};
    (void)poll(&inbox, 1, -1);
    for (const int signal : signals.take()) {
      if (signal != SIGCHLD && signal != SIGPIPE) kill(child, signal);
    }
  }
}

}  // namespace lockstep::apps
