#include "lockstep/core/file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "lockstep/core/error.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// What lies behind `path`, whether it is there or not.
std::string behind_links(const std::string& path) {
  std::error_code ignored;
  const fs::path target = fs::weakly_canonical(path, ignored);
  return target.empty() ? path : target.string();
}

/// A pipe, a device, a socket.
bool is_special(const std::string& path) {
  std::error_code ignored;
  return fs::is_other(path, ignored);
}

}  // namespace

void check_can_write(const std::string& path) {
  std::error_code ignored;
  const std::string target = behind_links(path);
  const fs::path folder = fs::absolute(target, ignored).parent_path();
  // An ordinary file may be read-only: it is replaced, not changed.
  const bool possible = is_special(target)
                            ? access(target.c_str(), W_OK) == 0
                            : !fs::is_directory(target, ignored) && access(folder.c_str(), W_OK | X_OK) == 0;
  if (path.empty() || !possible) {
    fail(Fault::Usage, "cannot write " + path + ": name a file in a folder that exists and is yours");
  }
}

void fail_to_write(const std::string& path, int error_number) {
  const bool full = error_number == ENOSPC || error_number == EDQUOT || error_number == EFBIG;
  fail(Fault::Io, "cannot write " + path + ": " + std::strerror(error_number) +
                      (full ? "; make room there, or name a place that has some" : ""));
}

void write_whole(const std::string& path, std::string_view text) {
  WholeFile file(path);
  file.write(text);
  file.commit();
}

WholeFile::WholeFile(const std::string& path)
    : path_(path),
      target_(behind_links(path)),
      aside_(is_special(target_) ? target_ : target_ + ".part" + std::to_string(getpid())),
      out_(aside_, std::ios::binary | std::ios::trunc) {
  check();
}

WholeFile::~WholeFile() {
  if (!committed_ && aside_ != target_) (void)std::remove(aside_.c_str());
}

void WholeFile::write(std::string_view text) {
  out_.write(text.data(), static_cast<std::streamsize>(text.size()));
  check();
}

void WholeFile::write_front(std::string_view text) {
  const auto end = out_.tellp();
  out_.seekp(0);
  write(text);
  out_.seekp(end);
  check();
}

void WholeFile::commit() {
  out_.close();
  check();
  if (aside_ != target_ && std::rename(aside_.c_str(), target_.c_str()) != 0) fail_to_write(path_, errno);
  committed_ = true;
}

void WholeFile::check() const {
  if (!out_) fail_to_write(path_, errno);
}

}  // namespace lockstep
