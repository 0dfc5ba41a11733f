// lockstep/data/block_cache.h
//
// Unpacked blocks, kept while there is room, and as many as a row needs in any case:
// else each row would unpack every one anew. Threads that want the same block unpack it
// once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace lockstep::data {

class BlockCache {
 public:
  using Key = std::pair<std::size_t, std::uint64_t>;  // column, block

  /// The `least_blocks` used last stay, however large.
  BlockCache(std::size_t most_bytes, std::size_t least_blocks) : most_bytes_(most_bytes), least_blocks_(least_blocks) {}

  /// The block of that name, unpacked by `unpack` if it is not there. Stays valid while held.
  std::shared_ptr<const std::string> get(const Key& key, const std::function<std::string()>& unpack);

 private:
  struct Entry {
    std::mutex unpacking;  // not once_flag: under the thread sanitizer it hangs when unpacking throws
    std::shared_ptr<const std::string> bytes;
    std::list<Key>::iterator age;
  };
  void shrink();

  const std::size_t most_bytes_;
  const std::size_t least_blocks_;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<Entry>> entries_;
  std::list<Key> ages_;  // the one used last at the front
  std::size_t bytes_ = 0;
};

}  // namespace lockstep::data
