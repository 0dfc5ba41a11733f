#include "lockstep/train/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/train/run_folder.h"

namespace lockstep::train {

RunLock::RunLock(const std::string& folder) {
  const std::string path = folder + "/lock";
  file_ = FileDescriptor(open(path.c_str(), O_RDWR | O_CREAT, 0666));
  if (!file_) fail_to_write(path, errno);
  // A file system without locks is as one with nobody else on it.
  if (flock(file_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    fail(Fault::Usage, fmt::format("the run '{}' is being trained by {}; wait until it ends, or end it there with kill",
                                   std::filesystem::path(folder).filename().string(), read_whole(path)));
  }
  const std::string who = fmt::format("process {} on {}", getpid(), host_name());
  if (ftruncate(file_.get(), 0) != 0 || pwrite(file_.get(), who.data(), who.size(), 0) < 0) fail_to_write(path, errno);
}

RunLock::~RunLock() {
  if (file_) (void)flock(file_.get(), LOCK_UN);  // also of a process that still has it
}

}  // namespace lockstep::train
