#include "lockstep/comm/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/arguments.h"
#include "lockstep/core/cpu.h"
#include "lockstep/core/error.h"

namespace lockstep::comm {
namespace {

struct Pipe {
  FileDescriptor reading;
  FileDescriptor writing;

  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) fail_errno("cannot make a pipe", errno);
    reading = FileDescriptor(ends[0]);
    writing = FileDescriptor(ends[1]);
  }
};

/// What a child that could not run its program tells us.
struct Refusal {
  int error_number = 0;
  bool binding = false;
};

[[noreturn]] void refuse(int to, Refusal refusal) {
  (void)!write(to, &refusal, sizeof refusal);
  _exit(127);
}

[[noreturn]] void become(const ChildOptions& options, const Guardian& guardian, pid_t parent, int output, int errors,
                         int refusals, char* const* arguments, char* const* environment) {
  setpgid(0, 0);
  guardian.guard(getpid());
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // it died before prctl took effect
  dup2(options.input >= 0 ? options.input : open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  setrlimit(RLIMIT_NOFILE, &options.open_files);
  try {
    if (!options.cpus.empty()) bind_to(options.cpus);
  } catch (const Error&) {
    refuse(refusals, {errno, true});
  }
  sigprocmask(SIG_SETMASK, &options.signal_mask, nullptr);
  execvpe(arguments[0], arguments, environment);
  refuse(refusals, {errno, false});
}

}  // namespace

ChildProcess::ChildProcess(const ChildOptions& options, const Guardian& guardian) {
  const auto arguments = arguments_of(options.command);
  const auto environment = arguments_of(options.environment);
  Pipe output, errors, refusals;
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) fail_errno(fmt::format("cannot start another process for '{}'", options.command[0]), errno);
  if (pid == 0) {
    become(options, guardian, parent, output.writing.get(), errors.writing.get(), refusals.writing.get(),
           arguments.data(), environment.data());
  }
  process_ = Handle<ProcessTraits>(pid);
  setpgid(pid, pid);  // both sides do it: whoever runs first

  refusals.writing.reset();
  Refusal refusal;
  ssize_t got;
  while ((got = read(refusals.reading.get(), &refusal, sizeof refusal)) < 0 && errno == EINTR) {
  }
  if (got > 0) {  // else the program runs: starting it closed the pipe
    fail(Fault::Usage, fmt::format("cannot {} '{}': {}", refusal.binding ? "bind" : "run", options.command[0],
                                   std::strerror(refusal.error_number)));
  }
  output_ = std::move(output.reading);
  errors_ = std::move(errors.reading);
}

void ChildProcess::ProcessTraits::release(Raw raw) noexcept {
  kill(-raw, SIGKILL);
  kill(raw, SIGKILL);  // should it not lead its group yet
  while (waitpid(raw, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::optional<ChildProcess::End> ChildProcess::end() const {
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(pid()), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
    return std::nullopt;
  }
  return End{info.si_code != CLD_EXITED, info.si_status};
}

std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& changes) {
  std::vector<std::string> result;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('='));
    const bool changed = std::any_of(changes.begin(), changes.end(), [&](const auto& c) { return c.first == name; });
    if (!changed) result.emplace_back(text);
  }
  for (const auto& [name, value] : changes) result.push_back(name + '=' + value);
  return result;
}

}  // namespace lockstep::comm
