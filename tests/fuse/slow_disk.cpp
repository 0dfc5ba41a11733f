// slow_disk FOLDER MOUNTPOINT BYTES_PER_SECOND COUNTS: shows the files of FOLDER at
// MOUNTPOINT as a shared disk would, read-only and never faster than said for all readers
// together. Nothing is cached on the way. At the end it leaves in the file COUNTS how many
// bytes were read of each file.
#define FUSE_USE_VERSION 31
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include <fuse3/fuse.h>

namespace {

using Clock = std::chrono::steady_clock;

std::string folder;
double bytes_per_second = 0;
std::mutex mutex;
std::map<std::string, long long> counts;
Clock::time_point free_at = Clock::now();  // when the disk has done all it was asked for

int get_attributes(const char* path, struct stat* status, fuse_file_info*) {
  return lstat((folder + path).c_str(), status) == 0 ? 0 : -errno;
}

int open_file(const char* path, fuse_file_info* file) {
  if ((file->flags & O_ACCMODE) != O_RDONLY) return -EROFS;
  const int descriptor = open((folder + path).c_str(), O_RDONLY);
  if (descriptor < 0) return -errno;
  file->fh = static_cast<std::uint64_t>(descriptor);
  file->direct_io = 1;  // every read comes here
  return 0;
}

int release_file(const char*, fuse_file_info* file) { return close(static_cast<int>(file->fh)); }

int read_file(const char* path, char* buffer, std::size_t size, off_t offset, fuse_file_info* file) {
  const ssize_t count = pread(static_cast<int>(file->fh), buffer, size, offset);
  if (count < 0) return -errno;
  Clock::time_point done;
  {
    const std::lock_guard lock(mutex);
    counts[path] += count;
    free_at = std::max(free_at, Clock::now()) +
              std::chrono::duration_cast<Clock::duration>(
                  std::chrono::duration<double>(static_cast<double>(count) / bytes_per_second));
    done = free_at;
  }
  std::this_thread::sleep_until(done);
  return static_cast<int>(count);
}

int list_folder(const char* path, void* buffer, fuse_fill_dir_t fill, off_t, fuse_file_info*, fuse_readdir_flags) {
  DIR* const directory = opendir((folder + path).c_str());
  if (directory == nullptr) return -errno;
  while (const dirent* entry = readdir(directory))
    fill(buffer, entry->d_name, nullptr, 0, static_cast<fuse_fill_dir_flags>(0));
  closedir(directory);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  folder = argv[1];
  bytes_per_second = std::atof(argv[3]);
  fuse_operations operations{};
  operations.getattr = get_attributes;
  operations.open = open_file;
  operations.release = release_file;
  operations.read = read_file;
  operations.readdir = list_folder;
  char foreground[] = "-f", options[] = "-o", read_only[] = "ro,auto_unmount";
  char* arguments[] = {argv[0], foreground, options, read_only, argv[2], nullptr};
  const int result = fuse_main(5, arguments, &operations, nullptr);
  std::ofstream out(argv[4]);
  for (const auto& [path, count] : counts) out << path << ' ' << count << '\n';
  return result;
}
