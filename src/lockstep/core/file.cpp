#include "lockstep/core/file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/handle.h"
#include "lockstep/core/hash.h"

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

constexpr std::string_view kPart = ".part";

/// Of a name in short: the whole of one may be longer than the name of a file.
std::string host_mark() {
  utsname names{};
  (void)uname(&names);
  return fmt::format("-{:08x}", hash64(names.nodename) & 0xFFFFFFFF);
}

}  // namespace

std::string aside_of(const std::string& path) { return fmt::format("{}{}{}{}", path, kPart, getpid(), host_mark()); }

std::string left_behind(const std::string& name) {
  const std::string host = host_mark();
  const auto place = name.rfind(kPart);
  if (place == std::string::npos || !name.ends_with(host)) return "";
  const auto* begin = name.data() + place + kPart.size();
  const auto* end = name.data() + name.size() - host.size();
  pid_t process = 0;
  const auto [stop, code] = std::from_chars(begin, end, process);
  if (code != std::errc() || stop != end || process <= 0) return "";
  return kill(process, 0) != 0 && errno == ESRCH ? name.substr(0, place) : "";
}

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

std::string read_whole(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) fail_errno("cannot read " + path, errno);
  std::string text;
  constexpr std::size_t kPiece = std::size_t{1} << 16;
  for (;;) {
    const std::size_t before = text.size();
    text.resize(before + kPiece);
    const ssize_t got = read(file.get(), text.data() + before, kPiece);
    text.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && errno != EINTR) fail_errno("cannot read " + path, errno);
    if (got == 0) return text;
  }
}

void sync_to_disk(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file || fsync(file.get()) != 0) fail_to_write(path, errno);
}

WholeFile::WholeFile(const std::string& path)
    : path_(path),
      target_(behind_links(path)),
      aside_(is_special(target_) ? target_ : aside_of(target_)),
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

void WholeFile::commit(Durable durable) {
  out_.close();
  check();
  if (durable == Durable::Yes && aside_ != target_) sync_to_disk(aside_);
  if (aside_ != target_ && std::rename(aside_.c_str(), target_.c_str()) != 0) fail_to_write(path_, errno);
  committed_ = true;
  // The name too, which is the folder's.
  if (durable == Durable::Yes && aside_ != target_) sync_to_disk(fs::path(target_).parent_path().string());
}

void WholeFile::check() const {
  if (!out_) fail_to_write(path_, errno);
}

}  // namespace lockstep
