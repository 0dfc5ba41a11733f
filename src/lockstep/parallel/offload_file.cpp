#include "lockstep/parallel/offload_file.h"

#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "lockstep/comm/background_thread.h"
#include "lockstep/core/error.h"
#include "lockstep/core/log.h"
#include "lockstep/core/nameless_file.h"
#include "lockstep/core/text.h"

namespace lockstep::parallel {
namespace {

constexpr const char kRemedy[] = "set parallel.offload_folder to a folder of yours on a local disk";

/// The name of a file system whose disk is another host's; "": it is none that is known.
std::string network_of(long magic) {
  // Not all of them are in the headers of the kernel.
  constexpr std::array<std::pair<long, const char*>, 13> kNetworks{{{0x6969, "NFS"},
                                                                    {0x0BD00BD0, "Lustre"},
                                                                    {0x47504653, "GPFS"},
                                                                    {0x19830326, "BeeGFS"},
                                                                    {0x00C36400, "Ceph"},
                                                                    {0x517B, "SMB"},
                                                                    {0xFF534D42, "CIFS"},
                                                                    {0xFE534D42, "SMB"},
                                                                    {0x01021997, "9P"},
                                                                    {0x5346414F, "AFS"},
                                                                    {0x6B414653, "AFS"},
                                                                    {0xAAD7AAEA, "Panasas"},
                                                                    {0x7461636F, "OCFS2"}}};
  for (const auto& [number, name] : kNetworks) {
    if (number == magic) return name;
  }
  return "";
}

bool is_memory(long magic) {
  constexpr long kTmpfs = 0x01021994, kRamfs = 0x858458f6;
  return magic == kTmpfs || magic == kRamfs;
}

void check_local(const std::string& folder) {
  struct statfs system{};
  if (statfs(folder.c_str(), &system) != 0)
    fail(Fault::Usage, fmt::format("parallel.offload needs {}: {}; {}", folder, std::strerror(errno), kRemedy));
  // Types of magic numbers differ between architectures.
  const auto magic = static_cast<long>(static_cast<std::uint32_t>(system.f_type));
  if (const std::string network = network_of(magic); !network.empty()) {
    fail(Fault::Usage, fmt::format("{} is on {}, and parallel.offload reads and writes there in every step: {}", folder,
                                   network, kRemedy));
  }
  if (is_memory(magic)) {
    log().warn("{} is a part of memory (tmpfs), so that parallel.offload saves none of it: {}", folder, kRemedy);
  }
  constexpr long kFuse = 0x65735546;  // anything may be behind it: a local disk as well as another host's
  static std::atomic<bool> warned = false;
  if (magic == kFuse && !warned.exchange(true)) {
    log().warn(
        "{} is on a file system of a program (FUSE), which may be of the network, and parallel.offload reads and "
        "writes there in every step: if it is not local, {}; said once",
        folder, kRemedy);
  }
}

FileDescriptor file_in(const std::string& folder, std::int64_t bytes) {
  FileDescriptor file = nameless_file(folder);
  if (!file) {
    fail(Fault::Usage,
         fmt::format("parallel.offload cannot make a file in {}: {}; {}", folder, std::strerror(errno), kRemedy));
  }
  const int error = reserve(file, bytes);
  if (error == 0) return file;
  std::error_code unknown;
  const auto space = std::filesystem::space(folder, unknown);
  fail(Fault::Io,
       fmt::format("parallel.offload needs {} bytes ({}) in {} for what this rank keeps there{}: {}; make room, or set "
                   "parallel.offload_folder to a folder on a larger local disk",
                   bytes, format_bytes(bytes), folder,
                   unknown ? "" : ", which has " + format_bytes(static_cast<std::int64_t>(space.available)) + " left",
                   std::strerror(error)));
}

std::string folder_or_usual(const std::string& folder) {
  if (!folder.empty()) return folder;
  const char* temporary = std::getenv("TMPDIR");
  return temporary != nullptr && *temporary != '\0' ? temporary : "/tmp";
}

}  // namespace

void check_offload_folder(const std::string& folder, std::int64_t bytes) {
  const std::string place = folder_or_usual(folder);
  check_local(place);
  (void)file_in(place, bytes);
}

bool lies_in_memory(const std::string& folder) {
  struct statfs system{};
  return statfs(folder_or_usual(folder).c_str(), &system) == 0 &&
         is_memory(static_cast<long>(static_cast<std::uint32_t>(system.f_type)));
}

OffloadFile::OffloadFile(const std::string& folder, std::int64_t bytes)
    : folder_(folder_or_usual(folder)), bytes_(bytes) {
  check_local(folder_);
  file_ = file_in(folder_, bytes);
  thread_ = comm::start_background_thread("lockstep-disk", [this] { work(); });
}

OffloadFile::~OffloadFile() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  asked_.notify_all();
  thread_.join();
}

OffloadFile::Ticket OffloadFile::read(std::int64_t at, void* to, std::int64_t bytes) {
  return ask({false, at, to, bytes});
}

OffloadFile::Ticket OffloadFile::write(std::int64_t at, const void* from, std::int64_t bytes) {
  return ask({true, at, const_cast<void*>(from), bytes});
}

OffloadFile::Ticket OffloadFile::ask(const Request& request) {
  if (request.at < 0 || request.bytes < 0 || request.at + request.bytes > bytes_) {
    fail(Fault::Internal,
         fmt::format("bytes {} to {} of a file of {}", request.at, request.at + request.bytes, bytes_));
  }
  Ticket ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
    ticket = ++last_asked_;
  }
  asked_.notify_all();
  return ticket;
}

void OffloadFile::wait(Ticket ticket) {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return last_done_ >= ticket || failure_; });
  if (failure_) std::rethrow_exception(failure_);
}

void OffloadFile::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    asked_.wait(lock, [this] { return ends_ || (!requests_.empty() && !failure_); });
    if (ends_) return;
    const Request request = requests_.front();
    lock.unlock();
    std::exception_ptr failure;
    try {
      perform(request);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    requests_.pop_front();
    ++last_done_;
    failure_ = failure;
    done_.notify_all();
  }
}

void OffloadFile::perform(const Request& request) const {
  auto* memory = static_cast<char*>(request.memory);
  for (std::int64_t done = 0; done < request.bytes;) {
    const auto length = static_cast<std::size_t>(request.bytes - done);
    const off_t at = request.at + done;
    const ssize_t count =
        request.write ? pwrite(file_.get(), memory + done, length, at) : pread(file_.get(), memory + done, length, at);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      fail(Fault::Io, fmt::format("cannot {} bytes {} to {} of the file of parallel.offload in {}: {}; go on from the "
                                  "last checkpoint with parallel.offload_folder on another disk",
                                  request.write ? "write" : "read", at, request.at + request.bytes, folder_,
                                  count < 0 ? std::strerror(errno) : "it ends before"));
    }
    done += count;
  }
}

}  // namespace lockstep::parallel
