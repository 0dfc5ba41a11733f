#include "lockstep/core/paths.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <system_error>

#include "lockstep/core/error.h"

namespace lockstep {
namespace {

std::filesystem::path cache_root() {
  // The XDG specification tells to ignore a relative path.
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg != nullptr && *xdg == '/') return xdg;
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    return std::filesystem::path(home) / ".cache";
  }
  if (const passwd* user = getpwuid(getuid()); user != nullptr && user->pw_dir != nullptr && *user->pw_dir == '/') {
    return std::filesystem::path(user->pw_dir) / ".cache";
  }
  fail(Fault::Usage, "no place for a cache: neither XDG_CACHE_HOME nor HOME is set. Remedy: set one of them");
}

}  // namespace

std::string cache_path() { return (cache_root() / "lockstep").string(); }

std::string cache_folder() {
  const std::string folder = cache_path();
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code) {
    fail(Fault::Io, "cannot create the cache folder " + folder + ": " + code.message() +
                        "; set XDG_CACHE_HOME to a folder that you can write");
  }
  return folder;
}

std::filesystem::path own_program() {
  std::error_code code;
  auto path = std::filesystem::read_symlink("/proc/self/exe", code);
  if (code) fail(Fault::Io, "cannot tell where this program lies (/proc/self/exe): " + code.message());
  return path;
}

}  // namespace lockstep
