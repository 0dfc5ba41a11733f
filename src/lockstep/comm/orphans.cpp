#include "lockstep/comm/orphans.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace lockstep::comm {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{1};
constexpr std::chrono::milliseconds kBetweenLooks{5};

/// Parent and state of a process; a parent of 0: it is gone.
struct Stat {
  pid_t parent = 0;
  char state = '?';
};

Stat stat_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text, '\0');
  Stat result;
  // "PID (NAME) STATE PARENT": a name may hold anything.
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 4 >= text.size()) return result;
  result.state = text[name_end + 2];
  result.parent = static_cast<pid_t>(std::atol(text.c_str() + name_end + 4));
  return result;
}

std::vector<pid_t> children() {
  std::vector<pid_t> result;
  const std::string self = std::to_string(getpid());
  // One thread starts all our children; not every kernel has the file.
  if (std::ifstream list("/proc/" + self + "/task/" + self + "/children"); list) {
    for (pid_t child; list >> child;) result.push_back(child);
    return result;
  }
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const auto process = static_cast<pid_t>(std::atol(entry.path().filename().c_str()));
    if (process > 0 && stat_of(process).parent == getpid()) result.push_back(process);
  }
  return result;
}

}  // namespace

Orphans::Orphans() : spared_(children()) {
  prctl(PR_GET_CHILD_SUBREAPER, &were_ours_before_);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
}

Orphans::~Orphans() {
  end();
  prctl(PR_SET_CHILD_SUBREAPER, were_ours_before_);
}

std::vector<Orphans::Found> Orphans::find() const {
  std::vector<Found> found;
  for (const pid_t child : children()) {
    if (std::find(spared_.begin(), spared_.end(), child) != spared_.end()) continue;
    found.push_back({child, stat_of(child).state == 'Z'});
  }
  return found;
}

void Orphans::reap() const {
  for (const auto& orphan : find()) {
    if (orphan.ended) waitpid(orphan.process, nullptr, WNOHANG);
  }
}

void Orphans::end() const {
  const auto until = Clock::now() + kPatience;
  for (;;) {
    const auto found = find();
    // Nobody but us can reap them: the numbers are still theirs.
    for (const auto& orphan : found) {
      if (!orphan.ended) kill(orphan.process, SIGKILL);
      waitpid(orphan.process, nullptr, WNOHANG);
    }
    if (found.empty() || Clock::now() >= until) return;
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

}  // namespace lockstep::comm
