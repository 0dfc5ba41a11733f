#include "lockstep/data/aside_path.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "lockstep/core/error.h"
#include "lockstep/core/file.h"

namespace lockstep::data {

namespace fs = std::filesystem;

AsidePath::AsidePath(const std::string& target, bool over_folder) {
  if (!over_folder || !fs::is_directory(target)) check_can_write(target);
  target_ = fs::weakly_canonical(target).string();
  aside_ = aside_of(target_);
}

AsidePath::~AsidePath() {
  std::error_code ignored;
  if (!committed_) fs::remove_all(aside_, ignored);
}

/// At once where the file system can exchange two names.
void AsidePath::replace_folder() const {
  if (renameat2(AT_FDCWD, aside_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) == 0) {
    fs::remove_all(aside_);
    return;
  }
  if (errno != EINVAL && errno != ENOSYS) fail_to_write(target_, errno);
  const std::string old = aside_ + ".old";
  if (std::rename(target_.c_str(), old.c_str()) != 0) fail_to_write(target_, errno);
  if (std::rename(aside_.c_str(), target_.c_str()) != 0) fail_to_write(target_, errno);
  fs::remove_all(old);
}

void AsidePath::commit() {
  if (fs::is_directory(target_) && fs::is_directory(aside_))
    replace_folder();
  else if (std::rename(aside_.c_str(), target_.c_str()) != 0)
    fail_to_write(target_, errno);
  committed_ = true;
}

}  // namespace lockstep::data
