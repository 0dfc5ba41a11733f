#include "train/run_chart.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "chart.h"
#include "lockstep/core/error.h"
#include "lockstep/core/text.h"
#include "lockstep/train/event_file.h"

namespace lockstep::apps {
namespace {

using Points = std::vector<std::pair<double, double>>;

/// Means of as many steps as leave `most` points, each at the mean of their places.
Points thinned(const std::vector<std::pair<std::int64_t, double>>& all) {
  constexpr std::size_t kMost = 300;
  const std::size_t together = (all.size() + kMost - 1) / kMost;
  Points points;
  for (std::size_t first = 0; first < all.size(); first += together) {
    const std::size_t last = std::min(first + together, all.size());
    double place = 0, value = 0;
    for (std::size_t i = first; i < last; ++i) {
      place += static_cast<double>(all[i].first);
      value += all[i].second;
    }
    const auto count = static_cast<double>(last - first);
    points.emplace_back(place / count, value / count);
  }
  return points;
}

}  // namespace

std::string chart_of(const std::vector<train::RunFolder>& runs, std::vector<std::string> figures) {
  const bool usual = figures.empty();
  if (usual) figures = {"train/loss", "validation/loss"};
  Chart chart{.title = "", .places = "steps", .values = "", .curves = {}};
  std::set<std::string> known, found;
  std::vector<std::string> names;
  for (const auto& run : runs) {
    names.push_back(run.name());
    const auto scalars = train::read_scalars(run.path());
    for (const auto& [tag, points] : scalars) known.insert(tag);
    for (const auto& figure : figures) {
      const auto points = scalars.find(figure);
      if (points == scalars.end()) continue;
      found.insert(figure);
      chart.curves.push_back({runs.size() > 1 ? run.name() + " " + figure : figure, thinned(points->second)});
    }
  }
  const auto missing =
      std::find_if(figures.begin(), figures.end(), [&](const auto& one) { return !found.contains(one); });
  if (found.empty() || (!usual && missing != figures.end())) {
    const std::vector<std::string> there(known.begin(), known.end());
    fail(Fault::Usage, fmt::format("{} has no '{}' to draw; there is {}", fmt::join(names, ", "), *missing,
                                   there.empty() ? "nothing yet" : list_some(there, there.size())));
  }
  chart.title = fmt::format("{}", fmt::join(names, ", "));
  chart.values = usual ? "loss" : fmt::format("{}", fmt::join(figures, ", "));
  return svg_chart(chart);
}

}  // namespace lockstep::apps
