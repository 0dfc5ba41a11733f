// tests/fuzz/round_trip_fuzz.h
//
// What a fuzzer of a data format does with its input: scans it as a file, reads every
// sample that the scan found, writes them, and reads them again. The only Error may be
// one of Fault::Data by the first scan; the index must survive being kept, and the values
// being written.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>

#include "lockstep/core/error.h"
#include "lockstep/data/format.h"

namespace lockstep::fuzz {

/// Of a file in memory, which goes with the process.
class MemoryFile {
 public:
  MemoryFile() : path_("/dev/shm/lockstep_format_fuzz." + std::to_string(getpid())) {}
  ~MemoryFile() { unlink(path_.c_str()); }
  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

inline const std::string& file_path() {
  static const MemoryFile file;
  return file.path();
}

inline data::Sample read(const data::Format& format, const data::Index& index, const data::FileBytes& file,
                         std::int64_t number) {
  data::Sample sample;
  sample.clear(index.schema.size());
  for (const auto& column : index.columns) {
    const auto extent = column.extent(number);
    format.decode(index, column, file.read(extent.offset, extent.length, sample.scratch), sample);
  }
  return sample;
}

inline void check_same(const data::Value& one, const data::Value& other) {
  const bool same = one.missing == other.missing && one.shape == other.shape &&
                    data::as_text(one.bytes) == data::as_text(other.bytes);
  if (!same) std::abort();
}

/// A schema that the format cannot write is fine.
inline bool write(const data::Format& format, const data::Index& index, const data::FileBytes& file) {
  std::unique_ptr<data::Writer> writer;
  try {
    writer = format.write(file_path(), index.schema, {});
  } catch (const Error& error) {
    if (error.fault() != Fault::Usage) std::abort();
    return false;
  }
  for (std::int64_t i = 0; i < index.samples; ++i) writer->add("", read(format, index, file, i));
  writer->finish();
  return true;
}

inline void scan_and_read(const std::string& name, std::string_view bytes, const data::OpenOptions& options,
                          const data::OpenOptions& written_options) {
  const auto& format = data::format_named(name);
  std::ofstream(file_path(), std::ios::binary) << bytes;
  data::Index index;
  try {
    index = format.scan(file_path(), options);
  } catch (const Error& error) {
    if (error.fault() != Fault::Data || error.message().empty()) std::abort();
    return;
  }
  index = data::Index::parse(index.serialize());
  const auto file = data::map_file(file_path());  // stays as it is when another takes its name
  if (!write(format, index, *file) || index.samples == 0) return;
  const auto again = format.scan(file_path(), written_options);
  const auto written = data::map_file(file_path());
  if (again.samples != index.samples) std::abort();
  for (std::int64_t i = 0; i < index.samples; ++i) {
    const auto before = read(format, index, *file, i);
    const auto after = read(format, again, *written, i);
    for (std::size_t place = 0; place < index.schema.size(); ++place) {
      check_same(before.values[place], after.values[data::place_of(again.schema, index.schema[place].name)]);
    }
  }
}

}  // namespace lockstep::fuzz
