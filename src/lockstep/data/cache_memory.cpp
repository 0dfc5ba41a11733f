#include "lockstep/data/cache_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <vector>

#include <fmt/format.h>

#include "lockstep/core/cpu.h"
#include "lockstep/core/error.h"
#include "lockstep/core/handle.h"
#include "lockstep/core/nameless_file.h"
#include "lockstep/core/text.h"

namespace lockstep::data {
namespace {

FileDescriptor file_of(std::size_t size, const std::string& folder) {
  FileDescriptor file =
      folder.empty() ? FileDescriptor(memfd_create("lockstep-cache", MFD_CLOEXEC)) : nameless_file(folder);
  if (!file)
    fail_errno(fmt::format("cannot make a cache of {} in {}", format_bytes(static_cast<std::int64_t>(size)),
                           folder.empty() ? "memory" : folder),
               errno);
  // On a disk now, where it can still be said: a full one would end the process at a write into the mapping.
  const int result = folder.empty() ? (ftruncate(file.get(), static_cast<off_t>(size)) == 0 ? 0 : errno)
                                    : reserve(file, static_cast<std::int64_t>(size));
  if (result != 0)
    fail_errno(fmt::format("no room for a cache of {} in {}", format_bytes(static_cast<std::int64_t>(size)),
                           folder.empty() ? "memory" : folder),
               result);
  return file;
}

CacheMemory mapped(const FileDescriptor& file, std::size_t size) {
  if (size == 0) return {};
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file.get(), 0);
  if (memory == MAP_FAILED) fail_errno("cannot map a cache", errno);
  return {{static_cast<std::byte*>(memory), [size](std::byte* piece) { munmap(piece, size); }}, size};
}

/// What tells this host from others, also where hosts are containers of one machine.
std::string host_identity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  char name[64] = {};
  const auto length = readlink("/proc/self/ns/pid", name, sizeof name - 1);
  return machine().host + " " + boot + " " + std::string(name, static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
}

}  // namespace

CacheMemory private_memory(std::size_t size, const std::string& folder) { return mapped(file_of(size, folder), size); }

CacheMemory shared_memory(std::size_t size, const std::string& folder, comm::Communicator& host) {
  if (host.size() == 1) return private_memory(size, folder);
  FileDescriptor file;
  std::string place;
  if (host.rank() == 0) {
    file = file_of(size, folder);
    place = fmt::format("/proc/{}/fd/{}", getpid(), file.get());
  }
  place = host.broadcast_bytes(place, 0);
  if (host.rank() != 0) {
    file = FileDescriptor(open(place.c_str(), O_RDWR | O_CLOEXEC));
    if (!file) fail_errno("cannot open the cache of this host's first rank, " + place, errno);
  }
  auto memory = mapped(file, size);
  host.barrier("cache opened");  // only then may the first rank close its descriptor
  return memory;
}

std::unique_ptr<comm::Communicator> ranks_of_host(comm::Communicator& group) {
  const auto identities = group.gather_bytes(host_identity());
  const auto& mine = identities[static_cast<std::size_t>(group.rank())];
  const auto first = std::find(identities.begin(), identities.end(), mine) - identities.begin();
  return group.split(static_cast<int>(first));
}

}  // namespace lockstep::data
