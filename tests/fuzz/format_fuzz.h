// tests/fuzz/format_fuzz.h
//
// Feeds any bytes to a format as a file that is scanned and read: an Error of
// Fault::Data that says something, or an index that survives being kept and samples
// whose bytes can all be read.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

#include "lockstep/core/error.h"
#include "lockstep/core/hash.h"
#include "lockstep/data/file_bytes.h"
#include "lockstep/data/format.h"
#include "lockstep/data/stored_dataset.h"

namespace lockstep::data {

/// False if `work` ended with an Error, which only corrupt data may cause.
template <class Work>
bool done_or_data_error(const Work& work) {
  try {
    work();
    return true;
  } catch (const Error& error) {
    if (error.fault() != Fault::Data || error.message().empty()) std::abort();
    return false;
  }
}

/// A file that is never on a disk.
inline std::string file_of(const std::uint8_t* data, std::size_t size) {
  static const int file = memfd_create("fuzz", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != static_cast<ssize_t>(size)) std::abort();
  return "/proc/self/fd/" + std::to_string(file);
}

inline void scan_and_read(const std::string& format, const std::uint8_t* data, std::size_t size) {
  constexpr std::int64_t kMostSamples = 1000;
  const std::string path = file_of(data, size);
  std::optional<Index> index;
  if (!done_or_data_error([&] { index = format_named(format).scan(path, {}); }) || index->samples == 0) return;
  index->format = format;
  const std::string kept = index->serialize();
  if (Index::parse(kept).samples != index->samples) std::abort();
  const StoredDataset set(path, std::move(*index));
  Sample sample;
  std::uint64_t hash = 0;  // touches every byte
  for (std::int64_t i = 0; i < std::min(set.size(), kMostSamples); ++i) {
    if (set.name(i).empty()) std::abort();
    if (!done_or_data_error([&] { set.read(i, sample); })) continue;
    for (const auto& value : sample.values) hash = hash64(as_text(value.bytes), hash);
  }
}

}  // namespace lockstep::data
