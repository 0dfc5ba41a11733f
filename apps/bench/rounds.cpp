#include "bench/rounds.h"

#include <algorithm>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "bench/table.h"
#include "bench/worker.h"
#include "lockstep/core/stopwatch.h"
#include "process.h"

namespace lockstep::apps {

std::optional<nlohmann::json> run_contestant(Contestant& contestant, double timeout_s, const std::string& who,
                                             Report& report) {
  const auto outcome = run_process(contestant.command, timeout_s);
  const auto result = nlohmann::json::parse(outcome.output, nullptr, false);
  if (outcome.exit_code == 0 && !outcome.timed_out && result.is_object() && result.contains("seconds")) return result;
  const bool ours = !is_peer(contestant.participant);
  if (ours && !contestant.may_fail) fail_worker(label(contestant.participant), outcome);
  contestant.running = false;
  report.skip(who, ours ? reason_of_worker(outcome) : reason_of(outcome));
  return std::nullopt;
}

void Extent::add_options(CLI::App& command) {
  command.add_option("--rounds", rounds, "Rounds over all participants")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--minutes", minutes, "Begin no round that would end later, going by the longest so far")
      ->check(CLI::Range(0.001, 1e6));
}

void run_rounds(std::vector<Contestant> all, const Extent& extent, Report& report, const ReportFiles& files,
                const std::string& title, const std::function<void(Contestant&)>& run_once) {
  const Stopwatch all_rounds;
  double longest_s = 0;
  LiveTable table(stdout);
  for (int round = 1; round <= extent.rounds; ++round) {
    if (round > 1 && extent.minutes > 0 && all_rounds.seconds() + longest_s > extent.minutes * 60) {
      table.clear();
      fmt::print("{} of {} rounds in {} minutes\n", round - 1, extent.rounds, extent.minutes);
      return;
    }
    const Stopwatch one_round;
    for (auto& contestant : all) {
      if (!contestant.running) continue;
      const std::string& work = contestant.workload.name;
      table.update(report, fmt::format("round {} of {}: {}{}{}", round, extent.rounds, label(contestant.participant),
                                       work.empty() ? "" : " ", work.empty() ? "" : heading(contestant.workload)));
      run_once(contestant);
    }
    longest_s = std::max(longest_s, one_round.seconds());
    files.write(report, title);
    // Nobody always follows the same neighbour.
    std::rotate(all.begin(), all.begin() + 1, all.end());
  }
  table.clear();
}

}  // namespace lockstep::apps
