#include "bench/format_data.h"

#include <filesystem>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/data/format.h"
#include "lockstep/data/open.h"
#include "lockstep/data/pack.h"
#include "progress.h"

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;

/// One that begins with a dot: IDX would otherwise look for labels in a file of a similar name.
std::string extension_of(const std::string& format) {
  for (const auto& extension : data::format_named(format).extensions()) {
    if (extension.starts_with('.')) return extension;
  }
  return "";  // a folder
}

void make(const data::DatasetPtr& samples, const std::string& path, const data::PackOptions& options) {
  Progress progress("making " + fs::path(path).filename().string(), "samples", samples->size());
  data::pack(samples, path, options, [&](std::int64_t count) { progress.add(count); });
}

/// An array of one row per record, in a folder that is there when all of them are.
void make_file_per_record(const data::DatasetPtr& samples, const IoData& io) {
  if (fs::exists(io.record_files())) return;
  const std::string aside = io.record_files() + ".part";
  fs::create_directories(aside);
  data::PackOptions options;
  options.shard_samples = 1;
  make(samples, aside + "/record.npy", options);
  fs::rename(aside, io.record_files());
}

/// In every format; that of the source itself is there already.
void add_formats(std::vector<StoredSamples>& all, const std::string& workload, const data::DatasetPtr& samples,
                 const IoData& io, Report& report) {
  for (const auto& format : data::FormatRegistry::instance().names()) {
    const std::string path = io.folder + "/" + workload + extension_of(format);
    data::PackOptions options;
    options.format = format;
    try {
      if (!fs::exists(path)) make(samples, path, options);
    } catch (const Error& error) {
      if (error.fault() != Fault::Usage) throw;
      report.skip(workload + " " + format, error.what());
      continue;
    }
    all.push_back({workload, format, format == "folder", path});
  }
}

}  // namespace

std::vector<StoredSamples> prepare_formats(const IoData& io, Report& report) {
  io.prepare_sources();
  std::vector<StoredSamples> all;
  add_formats(all, "images", data::open(io.tar()), io, report);
  const auto records = data::open(io.npy());
  make_file_per_record(records, io);
  all.push_back({"records", "npy", true, io.record_files() + "/*.npy"});
  add_formats(all, "records", records, io, report);
  std::vector<std::string> sources;
  for (const auto& one : all) {
    check_samples(one.source, one.workload == "images" ? io.images : io.records);  // and keeps its index
    sources.push_back(one.source);
  }
  warm(sources);
  return all;
}

}  // namespace lockstep::apps
