#include "mpirun_child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <optional>

#include <fmt/format.h>

#include "lockstep/comm/signal_inbox.h"
#include "lockstep/core/error.h"
#include "train/train_options.h"

namespace lockstep::apps {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::duration<double> kToSave(kToSave_s);

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
  // To SIGTERM and Ctrl-C mpirun answers by killing its ranks. They are to save first, and have their time for it.
  std::optional<Clock::time_point> end_at;
  for (int status = 0;;) {
    if (waitpid(child, &status, WNOHANG) == child) {
      return WIFEXITED(status) ? WEXITSTATUS(status) : exit_code::kSignal + WTERMSIG(status);
    }
    pollfd inbox{signals.descriptor(), POLLIN, 0};
    constexpr int kTick_ms = 1000;
    (void)poll(&inbox, 1, end_at ? kTick_ms : -1);
    for (const int signal : signals.take()) {
      if (signal == SIGCHLD || signal == SIGPIPE) continue;
      const bool first = (signal == SIGTERM || signal == SIGINT) && !end_at;
      if (first) end_at = Clock::now() + std::chrono::ceil<Clock::duration>(kToSave);
      kill(child, first ? SIGUSR1 : signal);
    }
    if (end_at && Clock::now() > *end_at) kill(child, SIGTERM);
  }
}

}  // namespace lockstep::apps
