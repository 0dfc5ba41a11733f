#include "lockstep/train/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>

#include <fmt/format.h>

#include "lockstep/core/cpu.h"
#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/train/run_folder.h"

namespace lockstep::train {
namespace {

std::string path_in(const std::string& folder) { return folder + "/" + kLock; }

/// Who only asks has it for a moment: that is worth a second try. A file system without locks is as one with nobody
/// else on it.
bool taken_by_another(int file) {
  constexpr int kTries = 20;
  for (int i = 0; i < kTries; ++i) {
    if (flock(file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

}  // namespace

RunLock::RunLock(const std::string& folder) {
  const std::string path = path_in(folder);
  file_ = FileDescriptor(open(path.c_str(), O_RDWR | O_CREAT, 0666));
  if (!file_) fail_to_write(path, errno);
  if (taken_by_another(file_.get())) {
    fail(Fault::Usage, fmt::format("the run '{}' is being trained by {}; wait until it ends, or end it there with kill",
                                   std::filesystem::path(folder).filename().string(), read_whole(path)));
  }
  const std::string who = fmt::format("process {} on {}", getpid(), machine().host);
  if (ftruncate(file_.get(), 0) != 0 || pwrite(file_.get(), who.data(), who.size(), 0) < 0) fail_to_write(path, errno);
}

RunLock::~RunLock() {
  if (file_) (void)flock(file_.get(), LOCK_UN);  // also of a process that still has it
}

bool RunLock::is_held(const std::string& folder) {
  const FileDescriptor file(open(path_in(folder).c_str(), O_RDONLY));
  if (!file) return errno != ENOENT;
  return flock(file.get(), LOCK_SH | LOCK_NB) != 0;
}

}  // namespace lockstep::train
