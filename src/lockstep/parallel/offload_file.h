// lockstep/parallel/offload_file.h
//
// A file without a name for what does not fit into memory, and a thread that reads and writes it while
// others compute. What is asked for is done in the order in which it was asked for, so a read finds what
// was written before it. The space is reserved when the file is made: a disk that is too small is an
// error then, not in the midst of a step. However the process ends, nothing is left behind.
//
// One thread at a time asks. Memory that is read into or written from stays as it is until wait().
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <thread>

#include "lockstep/core/handle.h"

namespace lockstep::parallel {

/// Fault::Usage if no file can be made there or it is not of this host, Fault::Io if there is no room for files of
/// so many bytes in all. An empty `folder` is $TMPDIR, or /tmp.
void check_offload_folder(const std::string& folder, std::int64_t bytes);
/// The folder is a part of memory (tmpfs): what lies there is not saved. Of an empty one as above.
bool lies_in_memory(const std::string& folder);

class OffloadFile {
 public:
  /// All zeros. Fails as check_offload_folder() does.
  OffloadFile(const std::string& folder, std::int64_t bytes);
  /// What was asked for and is not begun yet is dropped.
  ~OffloadFile();
  OffloadFile(const OffloadFile&) = delete;
  OffloadFile& operator=(const OffloadFile&) = delete;

  /// Of what was asked for: the number in its order.
  using Ticket = std::uint64_t;
  Ticket read(std::int64_t at, void* to, std::int64_t bytes);
  Ticket write(std::int64_t at, const void* from, std::int64_t bytes);
  /// Returns once that, and all before it, is done. Fault::Io naming the bytes if any of it has failed: nothing that
  /// was asked for after it is done, then.
  void wait(Ticket ticket);

  std::int64_t bytes() const noexcept { return bytes_; }

 private:
  struct Request {
    bool write;
    std::int64_t at;
    void* memory;
    std::int64_t bytes;
  };
  Ticket ask(const Request& request);
  void work();
  void perform(const Request& request) const;

  std::string folder_;
  std::int64_t bytes_;
  FileDescriptor file_;
  std::mutex mutex_;
  std::condition_variable asked_, done_;
  std::deque<Request> requests_;  // the first is being performed
  Ticket last_asked_ = 0, last_done_ = 0;
  std::exception_ptr failure_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace lockstep::parallel
