#include "lockstep/data/datasets/command.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include <fmt/format.h>

#include "lockstep/core/arguments.h"
#include "lockstep/core/error.h"
#include "lockstep/core/text.h"

namespace lockstep::data {
namespace {

/// What env and sh say of a program that is not there.
constexpr int kNotFound = 127;

[[noreturn]] void refuse(const std::vector<std::string>& command, const std::string& reason) {
  fail(Fault::Usage, fmt::format("cannot run '{}': {}; install it and try again", command[0], reason));
}

/// What a child does before it becomes the program.
class Setting {
 public:
  Setting(const std::string& folder, const std::string& output) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addchdir_np(&actions_, folder.c_str());
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    posix_spawn_file_actions_adddup2(&actions_, STDOUT_FILENO, STDERR_FILENO);
  }
  ~Setting() { posix_spawn_file_actions_destroy(&actions_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;
  const posix_spawn_file_actions_t* get() const noexcept { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

/// npm ends with where its log lies; by the time one reads that, it is removed.
bool says_something(const std::string& line) {
  return line.find_first_not_of(" \t\r") != std::string::npos && line.find("log of this run") == std::string::npos;
}

std::string last_line(const std::string& path) {
  std::ifstream file(path);
  std::string line, last = "it said nothing";
  while (std::getline(file, line)) {
    if (says_something(line)) last = line;
  }
  return last;
}

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) fail_errno("cannot wait for a program", errno);
  }
  return WIFSIGNALED(status) ? exit_code::kSignal + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

void run_command(const std::vector<std::string>& command, const std::string& folder, const std::string& output) {
  const Setting setting(folder, output);
  const auto arguments = arguments_of(command);
  pid_t child = 0;
  const int refused = posix_spawnp(&child, arguments[0], setting.get(), nullptr, arguments.data(), environ);
  if (refused != 0) refuse(command, std::strerror(refused));
  const int code = wait_for(child);
  if (code == kNotFound) refuse(command, last_line(folder + "/" + output));
  if (code != 0) {
    fail(Fault::Io,
         fmt::format("'{}' failed with code {}: {}", join(command, " "), code, last_line(folder + "/" + output)));
  }
}

}  // namespace lockstep::data
