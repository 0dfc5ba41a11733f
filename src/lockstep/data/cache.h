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

/// All ranks of `group` together. Under "cluster" each rank keeps the samples that Dataset::holders() gives it,
/// and those of others reach it through LoaderOptions::exchange; it can read them itself too, but then from the
/// shared disk, each time anew.
DatasetPtr open_cached(const std::string& source, const OpenOptions& options, const CacheOptions& cache,
                       comm::Communicator& group);

}  // namespace lockstep::data
