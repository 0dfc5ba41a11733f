// tests/train/memory_group.h
//
// A control group with a limit on the memory of the processes in it, of version 1 or 2.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::test {

class MemoryGroup {
 public:
  /// Without a limit so far.
  MemoryGroup();
  /// Kills what is left in it.
  ~MemoryGroup();
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  /// Why there is none; "": there is one.
  const std::string& missing() const noexcept { return missing_; }
  /// Of memory; nothing is swapped out instead.
  void limit(std::int64_t bytes) const;
  /// The most that was in use at once, pages of files among it; 0: the kernel does not say.
  std::int64_t peak() const;
  /// The command, to be run within it.
  std::vector<std::string> within(const std::vector<std::string>& command) const;

 private:
  bool make(const std::string& parent, const std::string& limit_file);

  std::string folder_;
  std::string limit_file_;
  std::string missing_;
};

}  // namespace lockstep::test
