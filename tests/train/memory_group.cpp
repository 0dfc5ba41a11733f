#include "memory_group.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "lockstep/core/error.h"

namespace lockstep::test {
namespace {

bool write(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  return file.good();
}

constexpr const char kVersion1[] = "/sys/fs/cgroup/memory";
constexpr const char kVersion2[] = "/sys/fs/cgroup";

}  // namespace

MemoryGroup::MemoryGroup() {
  if (std::filesystem::exists(kVersion1)) {
    if (make(kVersion1, "memory.limit_in_bytes")) return;
  } else {
    (void)write(std::string(kVersion2) + "/cgroup.subtree_control", "+memory");  // it may be on already
    if (make(kVersion2, "memory.max")) return;
  }
  if (!folder_.empty()) rmdir(folder_.c_str());
  folder_.clear();
}

bool MemoryGroup::make(const std::string& parent, const std::string& limit_file) {
  const std::string folder = parent + "/lockstep-test-" + std::to_string(getpid());
  if (mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) {
    missing_ = "no control group can be made in " + parent + ": " + std::strerror(errno);
    return false;
  }
  folder_ = folder;
  limit_file_ = folder + "/" + limit_file;
  if (access(limit_file_.c_str(), W_OK) == 0) return true;
  missing_ = "groups in " + parent + " have no limit of memory (" + limit_file + ")";
  return false;
}

MemoryGroup::~MemoryGroup() {
  if (folder_.empty()) return;
  // A process that was killed stays in its group for a moment.
  for (int attempt = 0; attempt < 500 && rmdir(folder_.c_str()) != 0; ++attempt) {
    std::ifstream processes(folder_ + "/cgroup.procs");
    for (pid_t process = 0; processes >> process;) kill(process, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void MemoryGroup::limit(std::int64_t bytes) const {
  if (!write(limit_file_, std::to_string(bytes))) fail_errno("cannot write " + limit_file_, errno);
  // Where there is swap.
  (void)write(folder_ + "/memory.memsw.limit_in_bytes", std::to_string(bytes));
  (void)write(folder_ + "/memory.swap.max", "0");
}

std::int64_t MemoryGroup::peak() const {
  for (const auto* name : {"/memory.max_usage_in_bytes", "/memory.peak"}) {
    std::int64_t bytes = 0;
    if (std::ifstream(folder_ + name) >> bytes) return bytes;
  }
  return 0;
}

std::vector<std::string> MemoryGroup::within(const std::vector<std::string>& command) const {
  std::vector<std::string> words{"/bin/sh", "-c", "echo $$ > \"$0\"/cgroup.procs && exec \"$@\"", folder_};
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

}  // namespace lockstep::test
