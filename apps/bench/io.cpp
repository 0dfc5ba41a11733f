// `lockstep bench io`: how fast batches come, beside PyTorch's DataLoader and WebDataset.
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/benches.h"
#include "bench/io_data.h"
#include "bench/io_run.h"
#include "bench/peers.h"
#include "bench/report.h"
#include "bench/report_files.h"
#include "bench/rounds.h"
#include "lockstep/core/cpu.h"
#include "lockstep/core/paths.h"
#include "lockstep/core/text.h"

namespace lockstep::apps {
namespace {

constexpr const char kExamples[] = R"(Examples:
  lockstep bench io --peers torch,webdataset --json out.json
  lockstep bench io --images 10000 --records 30000 --rounds 3     a quick look
Both data sets are read from a warm page cache, shuffled, in batches of 256.)";

struct Options {
  IoData data;
  std::int64_t batch = 256;
  Extent extent = {.rounds = 5};
  std::vector<std::string> peers = {"torch", "webdataset"};
  ReportFiles files;
};

/// For ours and the peers alike.
std::vector<std::string> arguments_of(const std::string& workload, const Options& options) {
  return io_arguments(workload, workload == "images" ? options.data.images : options.data.records, options.batch);
}

void add_ours(std::vector<Contestant>& all, const Options& options) {
  const auto add = [&](const char* format, const char* workload, const std::string& path) {
    all.push_back({{kOurs, format}, io_worker_command(path, arguments_of(workload, options)), io_workload(workload)});
  };
  add("tar", "images", options.data.tar());
  add("npy", "records", options.data.npy());
}

/// Each with every number of workers up to the cores: which is best differs.
void add_peer(std::vector<Contestant>& all, const std::string& peer, const Options& options) {
  struct Case {
    const char* peer;
    const char* workload;
    std::string variant;
    std::string path;
  };
  const std::vector<Case> cases = {{"torch", "images", "folder", options.data.images_folder()},
                                   {"torch", "records", "npy", options.data.npy()},
                                   {"torch", "records", "npy, whole batches", options.data.npy()},
                                   {"webdataset", "images", "tar", options.data.shards()}};
  const int cores = static_cast<int>(usable_cores().size());
  for (const auto& one : cases) {
    if (one.peer != peer) continue;
    for (int workers = 0; workers <= cores; workers = workers == 0 ? 1 : 2 * workers) {
      std::vector<std::string> command = {peers_folder() / "run-io", peer, one.path};
      const auto arguments = arguments_of(one.workload, options);
      command.insert(command.end(), arguments.begin(), arguments.end());
      command.insert(command.end(), {"--workers", std::to_string(workers)});
      if (one.variant.ends_with("whole batches")) command.emplace_back("--whole-batches");
      all.push_back({{peer, fmt::format("{}, {} workers", one.variant, workers)}, command, io_workload(one.workload)});
    }
  }
}

std::vector<Contestant> contestants(const Options& options, Report& report) {
  std::vector<Contestant> all;
  add_ours(all, options);
  for (const auto& peer : install_peers(options.peers, "install-io", report)) add_peer(all, peer, options);
  return all;
}

void print(const Report& report) {
  for (const auto& workload : report.workloads()) {
    fmt::print("{}\n", workload.name);
    for (const auto& participant : report.participants()) {
      const Series* series = report.find(participant, workload);
      if (series == nullptr) continue;
      fmt::print("  {:<36} {:>12.0f} samples/s   {:>10} of memory\n", label(participant), samples_per_s(*series),
                 format_bytes(*series->peak_pss_bytes));
    }
    for (const auto& ratio : report.ratios()) {
      if (ratio.workload == workload) fmt::print("  {:.2f} x {}\n", ratio.ratio, ratio.best_peer);
    }
  }
  for (const auto& skipped : report.skipped()) fmt::print("skipped {}: {}\n", skipped.who, skipped.reason);
}

void run(Options options) {
  options.peers = checked_peers(options.peers, {"torch", "webdataset"});
  options.files.check();
  if (options.data.folder.empty())
    options.data.folder = fmt::format("{}/bench-io-{}-{}", cache_folder(), options.data.images, options.data.records);
  options.data.prepare();
  Report report("io");
  run_rounds(contestants(options, report), options.extent, report, options.files, kIoTitle,
             [&](Contestant& contestant) { run_io(contestant, report); });
  print(report);
}

}  // namespace

void add_bench_io(CLI::App& bench) {
  auto options = std::make_shared<Options>();
  auto* command = bench.add_subcommand("io", "Batches a second beside PyTorch's DataLoader and WebDataset");
  command->footer(kExamples);
  add_io_options(*command, options->data, options->batch, options->extent);
  command->add_option("--peers", options->peers, "torch, webdataset or none")->delimiter(',')->capture_default_str();
  options->files.add_options(*command);
  command->callback([options] { run(*options); });
}

}  // namespace lockstep::apps
