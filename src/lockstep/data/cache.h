// lockstep/data/cache.h
//
// Opens a data set so that the shared file system is read once: by each host
// ("node"), or by the job as a whole ("cluster", see LoaderOptions::exchange). The
// first rank reads the index, or makes it, and hands it to the others.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/comm/communicator.h"
#include "lockstep/data/open.h"

namespace lockstep::data {

struct CacheOptions {
  std::string cache = "none";    // "none", "node" or "cluster"
  std::string folder = "";       // on the host's own disk; "": in memory
  std::int64_t quota_bytes = 0;  // most that a host may hold; 0: half of its memory
};

/// All ranks of `group` together. Under "cluster" a rank can read only the samples that it holds.
DatasetPtr open_cached(const std::string& source, const OpenOptions& options, const CacheOptions& cache,
                       comm::Communicator& group);

}  // namespace lockstep::data
