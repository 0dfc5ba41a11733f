#include "disk_use.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "lockstep/core/error.h"

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;

void add(DiskUse& use, const std::string& path) {
  constexpr std::int64_t kBlock = 512;  // the unit of st_blocks, whatever the file system's own
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) fail_errno("cannot read " + path, errno);
  ++use.files;
  use.bytes += status.st_size;
  use.disk_bytes += status.st_blocks * kBlock;
}

}  // namespace

DiskUse disk_use(const std::vector<std::string>& paths) {
  DiskUse use;
  for (const auto& path : paths) {
    if (!fs::is_directory(path)) {
      add(use, path);
      continue;
    }
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
      if (!entry.is_directory()) add(use, entry.path());
    }
  }
  return use;
}

}  // namespace lockstep::apps
