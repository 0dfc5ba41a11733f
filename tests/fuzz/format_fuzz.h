// tests/fuzz/format_fuzz.h
//
// Feeds any bytes to a format as a file that is scanned and read: an Error of
// Fault::Data that says something, or an index that survives being kept and samples
// whose bytes can all be read; in a round trip, which are the same when they were
// written and read again.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

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
inline std::string file_of(std::string_view bytes) {
  static const int file = memfd_create("fuzz", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, 0) != 0 || pwrite(file, bytes.data(), bytes.size(), 0) != std::ssize(bytes)) {
    std::abort();
  }
  return "/proc/self/fd/" + std::to_string(file);
}

/// Nothing if they are refused, as corrupt bytes may be, or hold no samples: such an index is never kept.
inline std::optional<Index> scanned(const std::string& format, const std::string& path, const OpenOptions& options) {
  std::optional<Index> index;
  if (!done_or_data_error([&] { index = format_named(format).scan(path, options); })) return std::nullopt;
  if (index->samples == 0) return std::nullopt;
  index->format = format;
  const auto kept = Index::parse(index->serialize());
  if (kept.samples != index->samples) std::abort();
  return kept;
}

inline void scan_and_read(const std::string& format, std::string_view bytes) {
  constexpr std::int64_t kMostSamples = 1000;
  const std::string path = file_of(bytes);
  auto index = scanned(format, path, {});
  if (!index) return;
  const StoredDataset set(path, std::move(*index));
  Sample sample;
  std::uint64_t hash = 0;  // touches every byte
  for (std::int64_t i = 0; i < std::min(set.size(), kMostSamples); ++i) {
    if (set.name(i).empty()) std::abort();
    if (!done_or_data_error([&] { set.read(i, sample); })) continue;
    for (const auto& value : sample.values) hash = hash64(as_text(value.bytes), hash);
  }
}

// ---- written and read again ------------------------------------------------------------------------

/// In memory, and gone with the process: writers want a name.
inline const std::string& written_path() {
  static const struct Path {
    std::string text = "/dev/shm/lockstep_format_fuzz." + std::to_string(getpid());
    ~Path() { unlink(text.c_str()); }
  } path;
  return path.text;
}

/// A schema that the format cannot write is fine.
inline bool write(const Format& format, const Dataset& set) {
  std::unique_ptr<Writer> writer;
  try {
    writer = format.write(written_path(), set.schema(), {});
  } catch (const Error& error) {
    if (error.fault() != Fault::Usage) std::abort();
    return false;
  }
  Sample sample;
  for (std::int64_t i = 0; i < set.size(); ++i) {
    set.read(i, sample);
    writer->add("", sample);
  }
  writer->finish();
  return true;
}

inline void check_same(const Dataset& one, const Dataset& other) {
  if (one.size() != other.size()) std::abort();
  Sample mine, theirs;
  for (std::int64_t i = 0; i < one.size(); ++i) {
    one.read(i, mine);
    other.read(i, theirs);
    for (std::size_t place = 0; place < one.schema().size(); ++place) {
      const Value& a = mine.values[place];
      const Value& b = theirs.values[place_of(other.schema(), one.schema()[place].name)];
      if (a.missing != b.missing || a.shape != b.shape || as_text(a.bytes) != as_text(b.bytes)) std::abort();
    }
  }
}

/// What the scan found must all be readable, and be written.
inline void round_trip(const std::string& format, std::string_view bytes, const OpenOptions& options = {},
                       const OpenOptions& written_options = {}) {
  const std::string path = file_of(bytes);
  auto index = scanned(format, path, options);
  if (!index) return;
  const StoredDataset set(path, std::move(*index));
  if (!write(format_named(format), set)) return;
  Index again = format_named(format).scan(written_path(), written_options);
  again.format = format;
  check_same(set, StoredDataset(written_path(), std::move(again)));
}

/// As text, which is what a fuzzer's input is here.
inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace lockstep::data
