#include "bench/rounds.h"

#include <algorithm>

#include <fmt/format.h>

#include "bench/table.h"

namespace lockstep::apps {

void run_rounds(std::vector<Contestant> all, int rounds, Report& report,
                const std::function<void(Contestant&)>& run_once) {
  LiveTable table(stdout);
  for (int round = 1; round <= rounds; ++round) {
    for (auto& contestant : all) {
      if (!contestant.running) continue;
      table.update(report, fmt::format("round {} of {}: {}{}{}", round, rounds, label(contestant.participant),
                                       contestant.workload.empty() ? "" : " ", contestant.workload));
      run_once(contestant);
    }
    // Nobody always follows the same neighbour.
    std::rotate(all.begin(), all.begin() + 1, all.end());
  }
  table.clear();
}

}  // namespace lockstep::apps
