// lockstep/data/cached_file.h
//
// A file of the shared file system of which every byte is read at most once: piece by
// piece, when first wanted, into memory that the ranks of a host may share. Whoever
// wants a piece first reads it; others wait for it. If that one dies, the next takes over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/file_bytes.h"

namespace lockstep::data {

/// Bytes [begin, end) of a file.
struct Interval {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool operator==(const Interval&) const = default;
};

/// Memory for the cached bytes and, behind them, one word per piece: zeroed at first, and shared
/// by whoever shares the cache.
struct CacheMemory {
  std::shared_ptr<std::byte> bytes;
  std::size_t size = 0;
};

/// So much of it `intervals` of a file take.
std::size_t cache_bytes(const std::vector<Interval>& intervals);

/// Reads inside `intervals` (ascending, apart) come from the cache, others from the file itself.
std::shared_ptr<const FileBytes> cached_file(const std::string& path, std::vector<Interval> intervals,
                                             CacheMemory memory);

}  // namespace lockstep::data
