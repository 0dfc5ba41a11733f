#include "lockstep/comm/signal_inbox.h"

#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>

#include "lockstep/core/error.h"

namespace lockstep::comm {

SignalInbox::SignalInbox() {
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGCHLD);
  sigaddset(&wanted, SIGPIPE);
  // A blocked signal is delivered even if it is ignored.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
    struct sigaction action{};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(&wanted, signal);
  }
  file_ = FileDescriptor(signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!file_) fail_errno("cannot listen to signals (signalfd)", errno);
  // Where SIGCHLD is ignored the kernel throws exit codes away.
  struct sigaction plain{};
  plain.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &plain, &child_before_);
  pthread_sigmask(SIG_BLOCK, &wanted, &mask_before_);
}

SignalInbox::~SignalInbox() {
  take();
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  sigaction(SIGCHLD, &child_before_, nullptr);
}

std::vector<int> SignalInbox::take() {
  std::vector<int> signals;
  signalfd_siginfo info;
  while (read(file_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    signals.push_back(static_cast<int>(info.ssi_signo));
  }
  return signals;
}

}  // namespace lockstep::comm
