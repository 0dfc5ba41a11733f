#include "process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <csignal>

#include <fmt/format.h>

#include "lockstep/core/arguments.h"
#include "lockstep/core/error.h"
#include "lockstep/core/text.h"

namespace lockstep::apps {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr int kPollMs = 50;
// Launchers need a moment to take their ranks down after SIGTERM.
constexpr Seconds kGrace{3};
// An orphan may hold a pipe open long after the program has ended.
constexpr Seconds kDrain{1};

/// One end of a pipe; reads whatever is there without blocking.
class Reader {
 public:
  explicit Reader(int descriptor) : descriptor_(descriptor) { fcntl(descriptor_, F_SETFL, O_NONBLOCK); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() { close(descriptor_); }

  /// poll() skips a negative descriptor.
  int descriptor() const noexcept { return ended_ ? -1 : descriptor_; }
  bool ended() const noexcept { return ended_; }
  void read_into(std::string& text) {
    std::array<char, 65536> chunk;
    while (!ended_) {
      const auto got = read(descriptor_, chunk.data(), chunk.size());
      if (got > 0)
        text.append(chunk.data(), static_cast<std::size_t>(got));
      else if (got < 0 && errno == EINTR)
        continue;
      else if (got < 0 && errno == EAGAIN)
        return;
      else
        ended_ = true;
    }
  }

 private:
  int descriptor_;
  bool ended_ = false;
};

// Between fork and exec only async-signal-safe calls are allowed.
[[noreturn]] void become(char* const* arguments, int output, int errors, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(127);  // the parent died before prctl took effect
  const int input = open("/dev/null", O_RDONLY);
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  execv(arguments[0], arguments);
  constexpr char kMessage[] = "the program cannot be started\n";
  (void)!write(STDERR_FILENO, kMessage, sizeof kMessage - 1);
  _exit(127);
}

struct Child {
  pid_t pid;
  int output;
  int errors;
};

Child start(const std::vector<std::string>& command) {
  const auto arguments = arguments_of(command);

  int output[2], errors[2];
  if (pipe2(output, O_CLOEXEC) != 0) fail_errno("cannot make a pipe", errno);
  if (pipe2(errors, O_CLOEXEC) != 0) {
    const int reason = errno;
    close(output[0]);
    close(output[1]);
    fail_errno("cannot make a pipe", reason);
  }
  const pid_t parent = getpid();
  const pid_t pid = fork();
  const int fork_errno = errno;
  if (pid == 0) become(arguments.data(), output[1], errors[1], parent);
  close(output[1]);
  close(errors[1]);
  if (pid < 0) {
    close(output[0]);
    close(errors[0]);
    fail_errno("cannot start " + command[0], fork_errno);
  }
  setpgid(pid, pid);  // both sides do it: whoever runs first
  return {pid, output[0], errors[0]};
}

int exit_code_of(int status) {
  return WIFSIGNALED(status) ? exit_code::kSignal + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

Outcome run_process(const std::vector<std::string>& command, double timeout_s) {
  const Child child = start(command);
  Reader output(child.output), errors(child.errors);
  Outcome outcome;
  bool running = true;
  int next_signal = SIGTERM;
  auto deadline = Clock::now() + Seconds(timeout_s);

  while (running || !output.ended() || !errors.ended()) {
    std::array<pollfd, 2> ready{{{output.descriptor(), POLLIN, 0}, {errors.descriptor(), POLLIN, 0}}};
    poll(ready.data(), ready.size(), kPollMs);
    output.read_into(outcome.output);
    errors.read_into(outcome.errors);

    int status = 0;
    if (running && waitpid(child.pid, &status, WNOHANG) == child.pid) {
      running = false;
      outcome.exit_code = exit_code_of(status);
      deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(kDrain);
    }
    if (Clock::now() < deadline) continue;
    if (!running) break;
    outcome.timed_out = true;
    kill(-child.pid, next_signal);
    next_signal = SIGKILL;
    deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(kGrace);
  }
  kill(-child.pid, SIGKILL);  // stragglers of its group
  return outcome;
}

std::string reason_of(const Outcome& outcome) {
  std::string first;
  for (const auto& line : split(outcome.errors, '\n')) {
    // Launchers frame their messages with lines of dashes.
    if (std::any_of(line.begin(), line.end(), [](unsigned char c) { return std::isalpha(c) != 0; })) {
      first = line;
      break;
    }
  }
  if (outcome.timed_out) return first.empty() ? "ran out of time" : "ran out of time: " + first;
  if (!first.empty()) return first;
  return fmt::format("ended with code {} and no message", outcome.exit_code);
}

}  // namespace lockstep::apps
