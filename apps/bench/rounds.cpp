#include "bench/rounds.h"

#include <algorithm>

#include <fmt/format.h>

#include "bench/table.h"
#include "bench/worker.h"
#include "process.h"

namespace lockstep::apps {

std::optional<nlohmann::json> run_contestant(Contestant& contestant, double timeout_s, const std::string& who,
                                             Report& report) {
  const auto outcome = run_process(contestant.command, timeout_s);
  const auto result = nlohmann::json::parse(outcome.output, nullptr, false);
  if (outcome.exit_code == 0 && !outcome.timed_out && result.is_object() && result.contains("seconds")) return result;
  if (!is_peer(contestant.participant)) fail_worker(label(contestant.participant), outcome);
  contestant.running = false;
  report.skip(who, reason_of(outcome));
  return std::nullopt;
}

void run_rounds(std::vector<Contestant> all, int rounds, Report& report,
                const std::function<void(Contestant&)>& run_once) {
  LiveTable table(stdout);
  for (int round = 1; round <= rounds; ++round) {
    for (auto& contestant : all) {
      if (!contestant.running) continue;
      const std::string& work = contestant.workload.name;
      table.update(report, fmt::format("round {} of {}: {}{}{}", round, rounds, label(contestant.participant),
                                       work.empty() ? "" : " ", work.empty() ? "" : heading(contestant.workload)));
      run_once(contestant);
    }
    // Nobody always follows the same neighbour.
    std::rotate(all.begin(), all.begin() + 1, all.end());
  }
  table.clear();
}

}  // namespace lockstep::apps
