#include "background.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <thread>

#include "lockstep/core/arguments.h"

namespace lockstep::test {
namespace {

constexpr const char kMark[] = "LOCKSTEP_TEST_MARK";

bool happens(const std::function<bool()>& what, double timeout_s) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_s);
  while (!what()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

std::string about(pid_t process, const char* what) {
  std::ifstream file("/proc/" + std::to_string(process) + "/" + what, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A zero in front of each variable, and behind it.
std::string environment_of(pid_t process) { return '\0' + about(process, "environ"); }

std::string contents(int file) {
  std::string text(static_cast<std::size_t>(lseek(file, 0, SEEK_END)), '\0');
  const auto got = pread(file, text.data(), text.size(), 0);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text;
}

}  // namespace

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

int occurrences(const std::string& text, const std::string& part) {
  int count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

// Files, not pipes: nobody has to read them, and they can be read twice. Appending, since
// reading the size moves the position that the writer shares.
Background::Background(const std::vector<std::string>& command, const std::string& input, int output)
    : output_(memfd_create("output", MFD_CLOEXEC)), errors_(memfd_create("errors", MFD_CLOEXEC)) {
  fcntl(output_.get(), F_SETFL, O_APPEND);
  fcntl(errors_.get(), F_SETFL, O_APPEND);
  static int started = 0;
  mark_ = std::string(kMark) + "=" + std::to_string(getpid()) + "-" + std::to_string(++started);
  const auto arguments = arguments_of(command);
  pid_ = fork();
  if (pid_ != 0) return;
  dup2(open(input.c_str(), O_RDONLY), STDIN_FILENO);
  dup2(output >= 0 ? output : output_.get(), STDOUT_FILENO);
  dup2(errors_.get(), STDERR_FILENO);
  putenv(mark_.data());
  execvp(arguments[0], arguments.data());
  _exit(127);
}

Background::~Background() {
  if (!ended_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  for (const pid_t process : processes()) kill(process, SIGKILL);
}

void Background::signal(int number) const { kill(pid_, number); }

int Background::wait(double timeout_s) {
  int status = 0;
  ended_ = happens([&] { return waitpid(pid_, &status, WNOHANG) == pid_; }, timeout_s);
  if (!ended_) return -1;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

bool Background::waits_for(const std::string& text, int count, double timeout_s) const {
  return happens([&] { return occurrences(output(), text) >= count; }, timeout_s);
}

std::string Background::output() const { return contents(output_.get()); }
std::string Background::errors() const { return contents(errors_.get()); }

std::vector<pid_t> Background::processes() const {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const int process = std::atoi(entry.path().filename().c_str());
    if (process <= 0) continue;
    if (has(environment_of(process), '\0' + mark_ + '\0')) found.push_back(static_cast<pid_t>(process));
  }
  return found;
}

bool Background::all_gone(double timeout_s) const {
  return happens([&] { return processes().empty(); }, timeout_s);
}

pid_t Background::rank(int number, const std::string& program) const {
  for (const pid_t process : processes()) {
    if (about(process, "comm") != program + "\n") continue;
    for (const char* name : {"LOCKSTEP_RANK=", "OMPI_COMM_WORLD_RANK="}) {
      if (has(environment_of(process), '\0' + (name + std::to_string(number)) + '\0')) return process;
    }
  }
  return -1;
}

std::set<std::string> our_files() {
  std::set<std::string> names;
  for (const char* folder : {"/dev/shm", "/tmp"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().filename().string().starts_with("lockstep")) names.insert(entry.path());
    }
  }
  return names;
}

Answer answer_of(const std::vector<std::string>& command, double timeout_s) {
  Background process(command);
  const int code = process.wait(timeout_s);
  return {code, process.output(), process.errors()};
}

}  // namespace lockstep::test
