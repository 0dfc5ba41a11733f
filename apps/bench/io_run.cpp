#include "bench/io_run.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "bench/worker.h"
#include "lockstep/core/paths.h"
#include "process.h"

namespace lockstep::apps {
namespace {

constexpr double kRunTimeout_s = 300;

struct Length {
  int warm_up;
  int batches;
};

/// Records: a whole epoch before the one that is timed, so that every page has been met. Images take
/// long to decode, and nothing is learnt from more of them.
Length length_of(const std::string& workload, std::int64_t samples, std::int64_t batch) {
  const auto epoch = static_cast<int>(std::max<std::int64_t>(1, samples / batch));
  return workload == "images" ? Length{20, std::min(epoch, 60)} : Length{epoch, epoch};
}

}  // namespace

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

double samples_per_s(const Series& series) {
  return static_cast<double>(series.samples_per_call.value_or(0)) / median(series.seconds);
}

}  // namespace lockstep::apps
