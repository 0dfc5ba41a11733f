// lockstep/data/pack.h
//
// Writes a data set in another format: as one file, or as shards that are written
// side by side. A shard appears whole or not at all, so a pack that was interrupted goes
// on where it was when started again.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/data/format.h"

namespace lockstep::data {

/// What is read, as far as it is files.
struct PackSource {
  std::string identity = {};            // what a pack that goes on must agree with
  std::vector<std::string> files = {};  // none of these is written over
};

struct PackOptions {
  std::string format;  // "": by the extension of the destination
  WriteOptions write = {};
  std::int64_t shard_bytes = 0;          // about so large; 0: one file
  std::int64_t shard_samples = 0;        // instead of shard_bytes
  std::vector<std::string> fields = {};  // these only, in this order
  PackSource source = {};                // source_of()
};

struct PackResult {
  std::vector<std::string> files;
  std::int64_t samples = 0;
  int shards_found = 0;  // of a pack that was interrupted
};

/// `progress` hears of samples done, from any thread.
PackResult pack(const DatasetPtr& source, const std::string& destination, const PackOptions& options,
                const std::function<void(std::int64_t samples)>& progress = {});

/// What the source is now: its files, their sizes and times, and how they are read.
PackSource source_of(const std::string& source, const OpenOptions& options);

/// Fault::Usage if one of the paths to be written is a file of the source, by whatever name.
void check_keeps_source(const PackSource& source, const std::vector<std::string>& to_write);

/// The fields `names` of it, in that order.
DatasetPtr choose_fields(DatasetPtr source, const std::vector<std::string>& names);

/// "train.tar", "00003" -> "train-00003.tar"; what it is compressed by stays at the end.
std::string with_suffix(const std::string& path, const std::string& suffix);

}  // namespace lockstep::data
