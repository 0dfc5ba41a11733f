#include "lockstep/train/stage_shares.h"

#include <numeric>

#include <fmt/format.h>

#include "lockstep/core/text.h"
#include "lockstep/parallel/stages.h"

namespace lockstep::train {

using parallel::ModelCosts;

std::vector<double> seconds_of(const ModelCosts& costs, std::int64_t samples) {
  std::vector<double> seconds;
  for (const auto& link : costs.links) seconds.push_back(link.seconds.at(samples));
  seconds.back() += costs.loss.seconds.at(samples);
  return seconds;
}

std::vector<double> weighed_links(const ModelCosts& costs, std::int64_t samples, bool measured) {
  return measured ? seconds_of(costs, samples) : parallel::costs_by_parameters(costs.parameters, costs.chain);
}

std::vector<std::size_t> cuts_of(const ModelCosts& costs, const Layout& layout, const RunFacts& facts) {
  if (!layout.cuts.empty()) return layout.cuts;
  if (layout.pipe == 1) return {0, costs.links.size()};
  return parallel::balanced_cuts(weighed_links(costs, facts.samples_at_once(layout), facts.measured),
                                 layout.pipe * layout.chunks);
}

std::vector<double> shares_of_stages(const std::vector<double>& costs, const std::vector<std::size_t>& cuts,
                                     int stages) {
  const double all = std::accumulate(costs.begin(), costs.end(), 0.0);
  std::vector<double> shares;
  for (int stage = 0; stage < stages; ++stage) {
    double own = 0;
    for (const std::size_t link : parallel::links_of(cuts, stage, stages)) own += costs[link];
    shares.push_back(all > 0 ? own / all : 1.0 / stages);
  }
  return shares;
}

std::vector<std::string> stage_lines(const parallel::Chain& chain, const std::vector<std::size_t>& cuts, int stages,
                                     const std::vector<double>& costs) {
  const auto shares = costs.empty() ? std::vector<double>{} : shares_of_stages(costs, cuts, stages);
  std::vector<std::string> lines;
  for (int stage = 0; stage < stages; ++stage) {
    std::vector<std::string> pieces;
    for (auto piece = static_cast<std::size_t>(stage); piece + 1 < cuts.size();
         piece += static_cast<std::size_t>(stages)) {
      const std::size_t first = cuts[piece], last = cuts[piece + 1] - 1;
      const std::string &from = chain[first].name, &to = chain[last].name;
      pieces.push_back(first == last ? from : fmt::format("{} to {}", from, to));
    }
    lines.push_back(fmt::format("stage {}: {}", stage, join(pieces, ", ")));
    if (shares.empty()) continue;
    lines.back() += fmt::format(", {:.1f} % of the time", 100 * shares[static_cast<std::size_t>(stage)]);
  }
  return lines;
}

}  // namespace lockstep::train
