#include "lockstep/comm/guardian.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "lockstep/comm/environment.h"
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

std::string new_mark() {
  const std::string own = fmt::format("{}-{:x}", getpid(), std::chrono::steady_clock::now().time_since_epoch().count());
  const auto around = environment::get(environment::kLaunch);
  return around ? *around + "/" + own : own;
}

bool has_mark(const std::string& process, const std::string& mark) {
  std::ifstream file("/proc/" + process + "/environ", std::ios::binary);
  const std::string name = std::string(environment::kLaunch) + '=';
  for (std::string variable; std::getline(file, variable, '\0');) {
    if (!variable.starts_with(name)) continue;
    const std::string value = variable.substr(name.size());
    return value == mark || value.starts_with(mark + "/");
  }
  return false;
}

/// A process may start another between our look and our signal: until a look finds none.
void kill_marked(const std::string& mark) {
  constexpr int kMostLooks = 50;
  for (int look = 0; look < kMostLooks; ++look) {
    bool found = false;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos || !has_mark(name, mark)) continue;
      kill(static_cast<pid_t>(std::stol(name)), SIGKILL);
      found = true;
    }
    if (!found) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

[[noreturn]] void watch(int pipe, const std::string& mark) {
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
  if (!groups.empty()) kill_marked(mark);
  _exit(0);
}

// Shorter than PIPE_BUF, so messages of several writers never mix.
void tell(int pipe, pid_t message) noexcept {
  while (write(pipe, &message, sizeof message) < 0 && errno == EINTR) {
  }
}

}  // namespace

Guardian::Guardian() : mark_(new_mark()) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail_errno("cannot make a pipe", errno);
  FileDescriptor reading(ends[0]);
  pipe_ = FileDescriptor(ends[1]);
  pid_ = fork();
  if (pid_ < 0) fail_errno("cannot start a process", errno);
  if (pid_ == 0) watch(reading.get(), mark_);
}

Guardian::~Guardian() {
  pipe_.reset();
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Guardian::guard(pid_t group) const noexcept { tell(pipe_.get(), group); }

void Guardian::forget_all() const noexcept { tell(pipe_.get(), kForgetAll); }

}  // namespace lockstep::comm
