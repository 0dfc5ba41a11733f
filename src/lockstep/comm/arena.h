// lockstep/comm/arena.h
//
// Hands out pieces of one rank's arena and takes them back. Any thread may call.
// Best fit with merging of neighbours. Pieces from 2 MiB start on a huge page, pieces
// from 16 MiB give their memory back to the system when freed.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

namespace lockstep::comm {

class Arena {
 public:
  /// `memory` keeps the arena mapped as long as any piece is in use.
  Arena(std::shared_ptr<void> memory, std::byte* base, std::size_t bytes);

  /// At least 128-byte aligned; contents are whatever was there. Fails when the arena is full.
  std::byte* allocate(std::size_t bytes);
  /// The same with every byte 0, without touching whole pages: whoever uses one first places it.
  std::byte* allocate_zeroed(std::size_t bytes);
  void release(std::byte* piece) noexcept;
  std::size_t used_bytes() const noexcept;

 private:
  std::shared_ptr<void> memory_;
  std::byte* base_;
  std::size_t bytes_;
  mutable std::mutex mutex_;
  std::map<std::size_t, std::size_t> free_;  // offset -> bytes
  std::map<std::size_t, std::size_t> used_;
  std::size_t used_bytes_ = 0;
};

}  // namespace lockstep::comm
