#include "bench/step_run.h"

#include <algorithm>
#include <cstdint>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/peers.h"
#include "bench/table.h"
#include "bench/worker.h"
#include "lockstep/comm/segment.h"

namespace lockstep::apps {
namespace {

constexpr double kRunTimeout_s = 300;

std::vector<std::string> with_steps(std::vector<std::string> command, const StepOptions& options) {
  const auto arguments = options.count.arguments();
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

}  // namespace

void StepCount::add_options(CLI::App& command) {
  command.add_option("--warm-up", warm_up, "Steps of each before the clock starts")
      ->check(CLI::Range(2, 1000))
      ->capture_default_str();
  command.add_option("--steps", timed, "Steps of each that are timed, in a round")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
}

std::vector<std::string> StepCount::arguments() const {
  return {"--warm-up", std::to_string(warm_up), "--steps", std::to_string(timed)};
}

void StepOptions::add_options(CLI::App& command) {
  command.add_option("-n,--ranks", ranks, "Numbers of ranks on this host")
      ->delimiter(',')
      ->check(CLI::Range(1, comm::kMostRanksOfHost))
      ->capture_default_str();
  command.add_option("--threads", threads, "Of each rank")->check(CLI::Range(1, 1024))->capture_default_str();
  command.add_option("--set", settings, "Of our recipes: key=value, such as fuse_step=false");
  extent.add_options(command);
  count.add_options(command);
  files.add_options(command);
}

std::string StepOptions::title() const {
  return fmt::format("time of a training step, {} thread{} a rank", threads, threads == 1 ? "" : "s");
}

std::vector<std::string> step_worker_command(const std::string& worker, int ranks, const StepOptions& options) {
  auto command = with_steps(launched(worker, ranks, options.threads), options);
  for (const auto& setting : options.settings) command.insert(command.end(), {"--set", setting});
  return command;
}

std::vector<std::string> step_peer_command(const std::string& script, int ranks, const StepOptions& options) {
  return with_steps(
      {peers_folder() / script, "--ranks", std::to_string(ranks), "--threads", std::to_string(options.threads)},
      options);
}

std::optional<nlohmann::json> run_steps(Contestant& contestant, Report& report) {
  const std::string who = fmt::format("{} {}", label(contestant.participant), heading(contestant.workload));
  auto result = run_contestant(contestant, kRunTimeout_s, who, report);
  if (!result) return std::nullopt;
  report.add(contestant.participant, contestant.workload, result->at("seconds").get<std::vector<double>>());
  Series& series = report.series(contestant.participant, contestant.workload);
  series.samples_per_call = result->at("samples").get<std::int64_t>();
  if (result->contains("exposed")) series.exposed_shares.push_back(result->at("exposed").get<double>());
  if (result->contains("pss_bytes")) {
    series.peak_pss_bytes = std::max(series.peak_pss_bytes.value_or(0), result->at("pss_bytes").get<std::int64_t>());
  }
  return result;
}

}  // namespace lockstep::apps
