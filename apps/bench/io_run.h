// apps/bench/io_run.h
//
// The calling convention of every input pipeline, ours and the peers': a path and
// options on the command line, one line of JSON on standard output,
// {"samples": …, "seconds": …, "pss_bytes": …}; ours adds "open_s".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "bench/io_data.h"
#include "bench/report.h"
#include "bench/rounds.h"

namespace lockstep::apps {

inline constexpr const char* kIoTitle = "time of 1000 samples";

/// --images, --records, --folder, --batch and those of the extent.
void add_io_options(CLI::App& command, IoData& data, std::int64_t& batch, Extent& extent);

Workload io_workload(const std::string& name);

/// How a workload ("images" or "records") of so many samples is read.
std::vector<std::string> io_arguments(const std::string& workload, std::int64_t samples, std::int64_t batch);

/// Ours, reading `path`; the arguments are appended.
std::vector<std::string> io_worker_command(const std::string& path, const std::vector<std::string>& arguments);

/// Adds what the contestant measured to the report; a peer that fails is skipped in it.
void run_io(Contestant& contestant, Report& report);

double samples_per_s(const Series& series);

}  // namespace lockstep::apps
