// `lockstep bench io`: how fast batches come, beside PyTorch's DataLoader and WebDataset.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/benches.h"
#include "bench/io_data.h"
#include "bench/peers.h"
#include "bench/report.h"
#include "bench/report_files.h"
#include "bench/table.h"
#include "bench/worker.h"
#include "lockstep/core/cpu.h"
#include "lockstep/core/error.h"
#include "lockstep/core/paths.h"
#include "lockstep/core/text.h"
#include "process.h"

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;

constexpr double kRunTimeout_s = 300;
constexpr double kInstallTimeout_s = 1800;

constexpr const char kExamples[] = R"(Examples:
  lockstep bench io --peers torch,webdataset --json out.json
  lockstep bench io --images 10000 --records 30000 --rounds 3     a quick look
Both data sets are read from a warm page cache, shuffled, in batches of 256.)";

struct Options {
  IoData data;
  std::int64_t batch = 256;
  int rounds = 5;
  std::vector<std::string> peers = {"torch", "webdataset"};
  ReportFiles files;
};

/// One participant on one workload, with a number of workers.
struct Contestant {
  Participant participant;
  std::string workload;  // "images" or "records"
  std::vector<std::string> command;
  bool running = true;
};

struct Length {
  int warm_up;
  int batches;
};

/// Records: a whole epoch before the one that is timed, so that every page has been met. Images take
/// long to decode, and nothing is learnt from more of them.
Length length_of(const std::string& workload, const Options& options) {
  const std::int64_t samples = workload == "images" ? options.data.images : options.data.records;
  const auto epoch = static_cast<int>(std::max<std::int64_t>(1, samples / options.batch));
  return workload == "images" ? Length{20, std::min(epoch, 60)} : Length{epoch, epoch};
}

std::vector<std::string> common_arguments(const std::string& workload, const Options& options) {
  const auto [warm_up, batches] = length_of(workload, options);
  return {"--workload", workload,
          "--batch",    std::to_string(options.batch),
          "--warm-up",  std::to_string(warm_up),
          "--batches",  std::to_string(batches)};
}

std::vector<std::string> joined(std::vector<std::string> front, const std::vector<std::string>& back) {
  front.insert(front.end(), back.begin(), back.end());
  return front;
}

void add_ours(std::vector<Contestant>& all, const Options& options) {
  const std::string program = own_program();
  for (const auto& [workload, path] : {std::pair{"images", options.data.tar()}, {"records", options.data.npy()}}) {
    all.push_back({{kOurs, workload == std::string("images") ? "tar" : "npy"},
                   workload,
                   joined({program, "bench", "io-worker", path}, common_arguments(workload, options))});
  }
}

/// Each with every number of workers up to the cores: which is best differs.
void add_peer(std::vector<Contestant>& all, const std::string& peer, const fs::path& folder, const Options& options) {
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
      auto command = joined({folder / "run-io", peer, one.path}, common_arguments(one.workload, options));
      command.insert(command.end(), {"--workers", std::to_string(workers)});
      if (one.variant.ends_with("whole batches")) command.emplace_back("--whole-batches");
      all.push_back({{peer, fmt::format("{}, {} workers", one.variant, workers)}, one.workload, command});
    }
  }
}

std::vector<Contestant> contestants(const Options& options, Report& report) {
  std::vector<Contestant> all;
  add_ours(all, options);
  const fs::path folder = peers_folder();
  for (const auto& peer : options.peers) {
    if (folder.empty()) {
      report.skip(peer, "benchmarks/peers of the source tree was not found");
      continue;
    }
    fmt::print("preparing {}\n", peer);
    std::fflush(stdout);
    const auto installed = run_process({folder / "install-io", peer}, kInstallTimeout_s);
    if (installed.exit_code != 0)
      report.skip(peer, reason_of(installed));
    else
      add_peer(all, peer, folder, options);
  }
  return all;
}

void run_once(Contestant& contestant, Report& report) {
  const auto outcome = run_process(contestant.command, kRunTimeout_s);
  const auto result = nlohmann::json::parse(outcome.output, nullptr, false);
  const bool good = outcome.exit_code == 0 && !outcome.timed_out && result.is_object() && result.contains("seconds");
  if (!good) {
    if (!is_peer(contestant.participant)) fail_worker(label(contestant.participant), outcome);
    contestant.running = false;
    return report.skip(label(contestant.participant), reason_of(outcome));
  }
  // Per thousand samples, so that runs of different length compare.
  constexpr std::int64_t kSamples = 1000;
  const double samples = result["samples"].get<double>();
  Series& series = report.series(contestant.participant, {contestant.workload, 1, 1, 0});
  series.seconds.push_back(result["seconds"].get<double>() / samples * static_cast<double>(kSamples));
  series.samples_per_call = kSamples;
  series.peak_pss_bytes = std::max(series.peak_pss_bytes.value_or(0), result["pss_bytes"].get<std::int64_t>());
}

void measure(const Options& options, Report& report) {
  auto all = contestants(options, report);
  LiveTable table(stdout);
  for (int round = 1; round <= options.rounds; ++round) {
    for (auto& contestant : all) {
      if (!contestant.running) continue;
      table.update(report, fmt::format("round {} of {}: {} {}", round, options.rounds, label(contestant.participant),
                                       contestant.workload));
      run_once(contestant, report);
    }
    std::rotate(all.begin(), all.begin() + 1, all.end());
  }
  table.clear();
}

void print(const Report& report) {
  for (const auto& workload : report.workloads()) {
    fmt::print("{}\n", workload.name);
    for (const auto& participant : report.participants()) {
      const Series* series = report.find(participant, workload);
      if (series == nullptr) continue;
      fmt::print("  {:<36} {:>12.0f} samples/s   {:>10} of memory\n", label(participant),
                 static_cast<double>(*series->samples_per_call) / median(series->seconds),
                 format_bytes(*series->peak_pss_bytes));
    }
    for (const auto& ratio : report.ratios()) {
      if (ratio.workload == workload) fmt::print("  {:.2f} x {}\n", ratio.ratio, ratio.best_peer);
    }
  }
  for (const auto& skipped : report.skipped()) fmt::print("skipped {}: {}\n", skipped.who, skipped.reason);
}

void run(Options options) {
  if (options.peers == std::vector<std::string>{"none"}) options.peers.clear();
  for (const auto& peer : options.peers) {
    const std::vector<std::string> known = {"torch", "webdataset"};
    if (std::find(known.begin(), known.end(), peer) == known.end())
      fail(Fault::Usage, fmt::format("unknown peer '{}'{}", peer, proposal(peer, known)));
  }
  options.files.check();
  if (options.data.folder.empty())
    options.data.folder = fmt::format("{}/bench-io-{}-{}", cache_folder(), options.data.images, options.data.records);
  options.data.prepare();
  Report report("io");
  measure(options, report);
  print(report);
  options.files.write(report, "time of 1000 samples");
}

}  // namespace

void add_bench_io(CLI::App& bench) {
  auto options = std::make_shared<Options>();
  auto* command = bench.add_subcommand("io", "Batches a second beside PyTorch's DataLoader and WebDataset");
  command->footer(kExamples);
  command->add_option("--images", options->data.images, "JPEGs of 64 x 64")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--records", options->data.records, "Records of 3 KiB")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--folder", options->data.folder, "Where the data is made; by default in the cache folder");
  command->add_option("--batch", options->batch, "Samples of a batch")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--peers", options->peers, "torch, webdataset or none")->delimiter(',')->capture_default_str();
  command->add_option("--rounds", options->rounds, "Rounds over all participants")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  options->files.add_options(*command);
  command->callback([options] { run(*options); });
  add_bench_io_worker(bench);
}

}  // namespace lockstep::apps
