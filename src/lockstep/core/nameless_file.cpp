#include "lockstep/core/nameless_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace lockstep {

FileDescriptor nameless_file(const std::string& folder) {
  FileDescriptor file(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  // Not every file system has files without a name from the start.
  if (!file && (errno == EOPNOTSUPP || errno == EISDIR)) {
    std::string path = folder + "/lockstep-XXXXXX";
    file = FileDescriptor(mkostemp(path.data(), O_CLOEXEC));
    if (file) unlink(path.c_str());
  }
  return file;
}

int reserve(const FileDescriptor& file, std::int64_t bytes) {
  int error = EINTR;
  while (error == EINTR) error = posix_fallocate(file.get(), 0, std::max<std::int64_t>(bytes, 1));
  return error;
}

}  // namespace lockstep
