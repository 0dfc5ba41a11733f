// lockstep/core/file.h
//
// Files that are read as a whole, and written as one: under another name first and then renamed, so
// that a reader never sees half of one, and a failure leaves the old one alone. Through
// a link the file behind it is written; a pipe or a device is written to, not replaced.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

namespace lockstep {

/// Before hours of work: Fault::Usage if `path` could not be written at their end.
void check_can_write(const std::string& path);

/// Where `path` is written until it is whole: beside it, by a name that says who does, this process on this host.
std::string aside_of(const std::string& path);
/// "train.tar" if `name` is an aside_of() it that a process of this host left when it was killed; else "". What
/// another host's process does cannot be seen from here.
std::string left_behind(const std::string& name);

/// Fault::Io: why `path`, as the user calls it, cannot be written, by an errno; with the remedy if a disk is full.
[[noreturn]] void fail_to_write(const std::string& path, int error_number);

void write_whole(const std::string& path, std::string_view text);
/// Fault::Io if it cannot be read.
std::string read_whole(const std::string& path);

/// Returns once what was written to the file or folder `path` is on the disk.
void sync_to_disk(const std::string& path);

/// The same in pieces. Without commit() nothing is left behind.
class WholeFile {
 public:
  explicit WholeFile(const std::string& path);
  ~WholeFile();
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  void write(std::string_view text);
  /// Over the first bytes, for a head that is known only at the end.
  void write_front(std::string_view text);
  /// Durable: on the disk when it returns, and not only in the memory of the system.
  enum class Durable : std::uint8_t { No, Yes };
  void commit(Durable durable = Durable::No);

 private:
  void check() const;

  std::string path_;
  std::string target_;  // behind links
  std::string aside_;   // the target itself if it is no ordinary file
  std::ofstream out_;
  bool committed_ = false;
};

}  // namespace lockstep
