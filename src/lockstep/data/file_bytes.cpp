#include "lockstep/data/file_bytes.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/cpu.h"
#include "lockstep/core/error.h"
#include "lockstep/core/handle.h"
#include "lockstep/data/decompress.h"

namespace lockstep::data {
namespace {

[[noreturn]] void fail_to_read(const std::string& path, int reason) {
  // A wrong name is wrong use; a disk that fails is not.
  constexpr std::array kUsage = {ENOENT, EACCES, EPERM, ENOTDIR, EISDIR, ELOOP, ENAMETOOLONG};
  const bool usage = std::find(kUsage.begin(), kUsage.end(), reason) != kUsage.end();
  const bool denied = reason == EACCES || reason == EPERM;
  fail(usage ? Fault::Usage : Fault::Io,
       fmt::format("cannot read {}: {}{}", path, std::strerror(reason),
                   denied ? "; ask its owner for the right to read it, and to enter the folders above it" : ""));
}

/// At once, also what nobody writes to: a pipe is found out by size_of().
FileDescriptor open_to_read(const std::string& path) {
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) fail_to_read(path, errno);
  return file;
}

[[noreturn]] void ends_early(const std::string& path, std::uint64_t size, std::uint64_t offset, std::uint64_t length) {
  fail(Fault::Data,
       fmt::format("{} is cut short: bytes {} to {} are wanted, but it has {}", path, offset, offset + length, size));
}

/// Its size; Fault::Usage if it is none that can be read at any place.
std::uint64_t size_of(const FileDescriptor& file, const std::string& path) {
  struct stat status{};
  if (fstat(file.get(), &status) != 0) fail_errno("cannot read " + path, errno);
  if (!S_ISREG(status.st_mode)) fail(Fault::Usage, fmt::format("{} is not an ordinary file", path));
  return static_cast<std::uint64_t>(status.st_size);
}

/// Network file systems fetch a mapping page by page.
bool suits_mapping(const std::string& path) {
  struct statfs system{};
  struct stat file{};
  if (statfs(path.c_str(), &system) != 0 || stat(path.c_str(), &file) != 0) return false;
  constexpr std::array<long, 5> kLocal = {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, TMPFS_MAGIC,
                                          OVERLAYFS_SUPER_MAGIC};
  const bool local = std::any_of(kLocal.begin(), kLocal.end(), [&](auto magic) { return system.f_type == magic; });
  return local && file.st_size <= machine().memory_bytes / 2;
}

Bytes read_range(const FileDescriptor& file, const std::string& path, std::uint64_t offset, std::uint64_t length,
                 Scratch& scratch) {
  const auto memory = scratch.take(length);
  for (std::uint64_t done = 0; done < length;) {
    const ssize_t count = pread(file.get(), memory.data() + done, length - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_errno("cannot read " + path, errno);
    if (count == 0) ends_early(path, offset + done, offset, length);
    done += static_cast<std::uint64_t>(count);
  }
  return memory;
}

class MappedFile final : public FileBytes {
 public:
  explicit MappedFile(const std::string& path) : path_(path) {
    const FileDescriptor file = open_to_read(path);
    size_ = size_of(file, path);
    if (size_ == 0) return;
    void* memory = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (memory == MAP_FAILED) fail_errno("cannot map " + path, errno);
    memory_ = static_cast<const std::byte*>(memory);
  }
  ~MappedFile() override {
    if (memory_ != nullptr) munmap(const_cast<std::byte*>(memory_), size_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const noexcept override { return path_; }
  std::uint64_t size() const noexcept override { return size_; }
  Bytes read(std::uint64_t offset, std::uint64_t length, Scratch&) const override {
    if (offset > size_ || length > size_ - offset) ends_early(path_, size_, offset, length);
    return {memory_ + offset, length};
  }
  // All lines of it up to a page's worth: the processor's own prefetcher would begin anew at each page.
  void prefetch(std::uint64_t offset, std::uint64_t length) const noexcept override {
    constexpr std::uint64_t kLine = 64, kMost = 4096;
    const std::uint64_t end = std::min({size_, offset + length, offset + kMost});
    for (std::uint64_t place = offset; place < end; place += kLine) __builtin_prefetch(memory_ + place, 0, 2);
  }

 private:
  std::string path_;
  std::uint64_t size_ = 0;
  const std::byte* memory_ = nullptr;
};

class DecompressedFile final : public FileBytes {
 public:
  explicit DecompressedFile(const std::string& path) : path_(path), bytes_(decompress_file(path)) {}
  const std::string& path() const noexcept override { return path_; }
  std::uint64_t size() const noexcept override { return bytes_.size(); }
  Bytes read(std::uint64_t offset, std::uint64_t length, Scratch&) const override {
    if (offset > bytes_.size() || length > bytes_.size() - offset) ends_early(path_, bytes_.size(), offset, length);
    return as_bytes(bytes_).subspan(offset, length);
  }

 private:
  std::string path_;
  std::string bytes_;
};

class OpenFile final : public FileBytes {
 public:
  explicit OpenFile(const std::string& path) : path_(path), file_(open_to_read(path)), size_(size_of(file_, path)) {}
  const std::string& path() const noexcept override { return path_; }
  std::uint64_t size() const noexcept override { return size_; }
  Bytes read(std::uint64_t offset, std::uint64_t length, Scratch& scratch) const override {
    if (offset > size_ || length > size_ - offset) ends_early(path_, size_, offset, length);
    return read_range(file_, path_, offset, length, scratch);
  }

 private:
  std::string path_;
  FileDescriptor file_;
  std::uint64_t size_;
};

class PlainFile final : public FileBytes {
 public:
  PlainFile(std::string path, std::uint64_t size) : path_(std::move(path)), size_(size) {}
  const std::string& path() const noexcept override { return path_; }
  std::uint64_t size() const noexcept override { return size_; }
  Bytes read(std::uint64_t offset, std::uint64_t length, Scratch& scratch) const override {
    if (offset > size_ || length > size_ - offset) ends_early(path_, size_, offset, length);
    return read_range(open_to_read(path_), path_, offset, length, scratch);
  }

 private:
  std::string path_;
  std::uint64_t size_;
};

}  // namespace

bool is_there(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) == 0) return true;
  // Arguments of a built-in set may be longer than any name.
  if (errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG) return false;
  fail_to_read(path, errno);
}

void check_can_read(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) fail_to_read(path, errno);
  const bool folder = S_ISDIR(status.st_mode);
  if (!folder && !S_ISREG(status.st_mode)) {
    fail(Fault::Usage,
         fmt::format("{} is neither an ordinary file nor a folder; write what it holds into a file", path));
  }
  if (faccessat(AT_FDCWD, path.c_str(), folder ? R_OK | X_OK : R_OK, AT_EACCESS) != 0) fail_to_read(path, errno);
}

std::shared_ptr<const FileBytes> map_file(const std::string& path) {
  if (is_compressed_name(path)) return std::make_shared<DecompressedFile>(path);
  return std::make_shared<MappedFile>(path);
}

std::shared_ptr<const FileBytes> open_file(const std::string& path) {
  if (is_compressed_name(path)) return std::make_shared<DecompressedFile>(path);
  return std::make_shared<OpenFile>(path);
}

std::shared_ptr<const FileBytes> open_array_file(const std::string& path) {
  if (!is_compressed_name(path) && suits_mapping(path)) return std::make_shared<MappedFile>(path);
  return open_file(path);
}

std::shared_ptr<const FileBytes> plain_file(const std::string& path, std::uint64_t size) {
  return std::make_shared<PlainFile>(path, size);
}

}  // namespace lockstep::data
