// apps/bench/format_data.h
//
// The same samples in every format that can hold them, for the benchmark of formats:
// made once in a folder, and found there by the next run.
#pragma once

#include <string>
#include <vector>

#include "bench/io_data.h"
#include "bench/report.h"

namespace lockstep::apps {

struct StoredSamples {
  std::string workload;  // "images" or "records"
  std::string format;
  bool file_per_sample = false;
  std::string source;  // as data::open() takes it
};

/// Makes what is not there and its index, then reads it all into the page cache. A format that cannot
/// hold such samples is skipped in the report, with its own words.
std::vector<StoredSamples> prepare_formats(const IoData& io, Report& report);

}  // namespace lockstep::apps
