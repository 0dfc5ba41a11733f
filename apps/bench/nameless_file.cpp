#include "bench/nameless_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include <fmt/format.h>

#include "lockstep/core/file.h"
#include "lockstep/core/paths.h"

namespace lockstep::apps {
namespace {

/// Takes the name of a file away.
class Unlinking {
 public:
  explicit Unlinking(const std::string& path) : path_(path) {}
  ~Unlinking() { unlink(path_.c_str()); }
  Unlinking(const Unlinking&) = delete;
  Unlinking& operator=(const Unlinking&) = delete;

 private:
  const std::string& path_;
};

}  // namespace

FileDescriptor nameless_file(const std::string& bench, const std::function<void(const std::string& path)>& write) {
  std::string path = fmt::format("{}/bench-{}-XXXXXX", cache_folder(), bench);
  FileDescriptor file(mkostemp(path.data(), O_CLOEXEC));
  if (!file) fail_to_write(path, errno);
  const Unlinking at_the_end(path);
  if (!write) return file;
  write(path);
  // Writers put another file in its place.
  FileDescriptor written(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!written) fail_to_write(path, errno);
  return written;
}

std::string path_of(const FileDescriptor& file) {
  return file ? fmt::format("/proc/{}/fd/{}", getpid(), file.get()) : "";
}

}  // namespace lockstep::apps
