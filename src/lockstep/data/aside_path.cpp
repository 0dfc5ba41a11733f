#include "lockstep/data/aside_path.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "lockstep/core/error.h"
#include "lockstep/core/file.h"

namespace lockstep::data {

namespace fs = std::filesystem;

AsidePath::AsidePath(const std::string& target) {
  check_can_write(target);
  target_ = fs::weakly_canonical(target).string();
  aside_ = target_ + ".part" + std::to_string(getpid());
}

AsidePath::~AsidePath() {
  std::error_code ignored;
  if (!committed_) fs::remove_all(aside_, ignored);
}

void AsidePath::commit() {
  if (std::rename(aside_.c_str(), target_.c_str()) != 0) fail_to_write(target_, errno);
  committed_ = true;
}

}  // namespace lockstep::data
