#include "lockstep/core/file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "lockstep/core/error.h"

namespace lockstep {

void check_can_write(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path folder = fs::absolute(path, ignored).parent_path();
  // The file itself may be read-only: it is replaced, not changed.
  if (path.empty() || fs::is_directory(path, ignored) || access(folder.c_str(), W_OK | X_OK) != 0) {
    fail(Fault::Usage, "cannot write " + path + ": name a file in a folder that exists and is yours");
  }
}

void write_whole(const std::string& path, std::string_view text) {
  WholeFile file(path);
  file.write(text);
  file.commit();
}

WholeFile::WholeFile(const std::string& path)
    : path_(path), aside_(path + ".part" + std::to_string(getpid())), out_(aside_, std::ios::binary | std::ios::trunc) {
  check();
}

WholeFile::~WholeFile() {
  if (!committed_) (void)std::remove(aside_.c_str());
}

void WholeFile::write(std::string_view text) {
  out_.write(text.data(), static_cast<std::streamsize>(text.size()));
  check();
}

void WholeFile::commit() {
  out_.close();
  check();
  if (std::rename(aside_.c_str(), path_.c_str()) != 0) fail_errno("cannot write " + path_, errno);
  committed_ = true;
}

void WholeFile::check() const {
  if (!out_) fail_errno("cannot write " + path_, errno);
}

}  // namespace lockstep
