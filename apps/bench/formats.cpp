// `lockstep bench formats`: the same samples in every format, read by us. One file per
// sample, as people often have them, stands where other benchmarks have their peer.
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/benches.h"
#include "bench/format_data.h"
#include "bench/io_run.h"
#include "bench/report.h"
#include "bench/report_files.h"
#include "bench/rounds.h"
#include "disk_use.h"
#include "lockstep/core/paths.h"
#include "lockstep/core/text.h"
#include "lockstep/data/open.h"

namespace lockstep::apps {
namespace {

constexpr const char* kFilePerSample = "file-per-sample";

constexpr const char kExamples[] = R"(Examples:
  lockstep bench formats --json out.json
  lockstep bench formats --images 2000 --records 10000 --rounds 3     a quick look
JPEGs of 64 x 64 with a label, and records of 3 KiB, read from a warm page cache, shuffled. The time
to open is with the index there; a shared file system adds to it for every file.)";

struct Options {
  IoData data = {"", 20'000, 100'000};
  std::int64_t batch = 256;
  Extent extent = {.rounds = 5};
  ReportFiles files;
};

Contestant contestant_of(const StoredSamples& stored, const Options& options) {
  const std::int64_t samples = stored.workload == "images" ? options.data.images : options.data.records;
  return {{stored.file_per_sample ? kFilePerSample : kOurs, stored.format},
          io_worker_command(stored.source, io_arguments(stored.workload, samples, options.batch)),
          io_workload(stored.workload)};
}

std::string ratio_of(const Report& report, const Series& series) {
  for (const auto& ratio : report.ratios()) {
    if (ratio.ours == series.participant && ratio.workload == series.workload)
      return fmt::format("{:.2f}", ratio.ratio);
  }
  return "";
}

void print(const Report& report) {
  constexpr const char* kLine = "  {:<26}{:>9}{:>12}{:>12}{:>11}{:>12}{:>8}\n";
  for (const auto& workload : report.workloads()) {
    fmt::print(kLine, workload.name, "files", "bytes", "on disk", "open", "samples/s", "ratio");
    for (const auto& series : report.all()) {
      if (!(series.workload == workload) || series.seconds.empty()) continue;
      fmt::print(kLine, is_peer(series.participant) ? label(series.participant) : series.participant.variant,
                 series.disk->files, format_bytes(series.disk->bytes), format_bytes(series.disk->disk_bytes),
                 format_seconds(median(series.open_seconds)), fmt::format("{:.0f}", samples_per_s(series)),
                 ratio_of(report, series));
    }
  }
  for (const auto& skipped : report.skipped()) fmt::print("skipped {}: {}\n", skipped.who, skipped.reason);
}

void run(Options options) {
  options.files.check();
  if (options.data.folder.empty()) {
    options.data.folder =
        fmt::format("{}/bench-formats-{}-{}", cache_folder(), options.data.images, options.data.records);
  }
  Report report("formats");
  std::vector<Contestant> all;
  for (const auto& stored : prepare_formats(options.data, report)) {
    all.push_back(contestant_of(stored, options));
    report.series(all.back().participant, io_workload(stored.workload)).disk = disk_use(data::expand(stored.source));
  }
  run_rounds(all, options.extent, report, options.files, kIoTitle,
             [&](Contestant& contestant) { run_io(contestant, report); });
  print(report);
}

}  // namespace

void add_bench_formats(CLI::App& bench) {
  auto options = std::make_shared<Options>();
  auto* command = bench.add_subcommand("formats", "Samples a second of every data format beside one file per sample");
  command->footer(kExamples);
  add_io_options(*command, options->data, options->batch, options->extent);
  options->files.add_options(*command);
  command->callback([options] { run(*options); });
}

}  // namespace lockstep::apps
