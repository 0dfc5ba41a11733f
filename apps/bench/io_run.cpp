#include "bench/io_run.h"

#include <algorithm>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "lockstep/core/paths.h"
#include "whole_number.h"

namespace lockstep::apps {
namespace {

constexpr double kRunTimeout_s = 300;

struct Length {
  int warm_up;
  int batches;
};

/// Records: a whole epoch before the one that is timed, so that every page has been met. Images take
/// long to decode, and nothing is learnt from more of them. Of fewer than a loader has ready when the
/// clock starts, nothing is learnt either.
Length length_of(const std::string& workload, std::int64_t samples, std::int64_t batch) {
  constexpr int kFewest = 20, kMostOfImages = 60;
  const int epoch = std::max(kFewest, static_cast<int>(samples / batch));
  return workload == "images" ? Length{kFewest, std::min(epoch, kMostOfImages)} : Length{epoch, epoch};
}

}  // namespace

void add_io_options(CLI::App& command, IoData& data, std::int64_t& batch, Extent& extent) {
  command.add_option("--images", data.images, "JPEGs of 64 x 64")->check(whole_from(1))->capture_default_str();
  command.add_option("--records", data.records, "Records of 3 KiB")->check(whole_from(1))->capture_default_str();
  command.add_option("--folder", data.folder, "Where the data is made; by default in the cache folder");
  command.add_option("--batch", batch, "Samples of a batch")->check(whole_from(1))->capture_default_str();
  extent.add_options(command);
}

Workload io_workload(const std::string& name) { return {name, 1, 1, 0}; }

std::vector<std::string> io_arguments(const std::string& workload, std::int64_t samples, std::int64_t batch) {
  const auto [warm_up, batches] = length_of(workload, samples, batch);
  return {"--workload", workload,
          "--batch",    std::to_string(batch),
          "--warm-up",  std::to_string(warm_up),
          "--batches",  std::to_string(batches)};
}

std::vector<std::string> io_worker_command(const std::string& path, const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {own_program(), "bench", "io-worker", path};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

void run_io(Contestant& contestant, Report& report) {
  const auto measured = run_contestant(contestant, kRunTimeout_s, label(contestant.participant), report);
  if (!measured) return;
  const auto& result = *measured;
  // Per thousand samples, so that runs of different length compare.
  constexpr std::int64_t kSamples = 1000;
  const double samples = result["samples"].get<double>();
  Series& series = report.series(contestant.participant, contestant.workload);
  series.seconds.push_back(result["seconds"].get<double>() / samples * static_cast<double>(kSamples));
  series.samples_per_call = kSamples;
  series.peak_pss_bytes = std::max(series.peak_pss_bytes.value_or(0), result["pss_bytes"].get<std::int64_t>());
  if (result.contains("open_s")) series.open_seconds.push_back(result["open_s"].get<double>());
}

double samples_per_s(const Series& series) {
  return static_cast<double>(series.samples_per_call.value_or(0)) / median(series.seconds);
}

}  // namespace lockstep::apps
