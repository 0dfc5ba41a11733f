#include "train/lr_view.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace lockstep::apps {

std::string text_of(const train::LrFound& found) {
  constexpr std::size_t kRows = 20;
  constexpr double kWidth = 40;
  const auto& points = found.points;
  std::string text = fmt::format("{:>10}  {:>9}\n", "lr", "loss");
  double lowest = 0, highest = 0;
  if (!points.empty()) {
    const auto [low, high] = std::minmax_element(
        points.begin(), points.end(), [](const auto& one, const auto& other) { return one.smoothed < other.smoothed; });
    lowest = low->smoothed;
    highest = high->smoothed;
  }
  const std::size_t every = std::max<std::size_t>(1, (points.size() + kRows - 1) / kRows);
  for (std::size_t i = 0; i < points.size(); i += every) {
    const auto& [lr, loss, smoothed] = points[i];
    const double share = highest > lowest ? (smoothed - lowest) / (highest - lowest) : 0;
    const auto last = std::min(i + every, points.size()) - 1;
    const bool marked = found.suggested && *found.suggested >= lr && *found.suggested <= points[last].lr;
    text += fmt::format("{:10.3g}  {:9.4f}  {}{}\n", lr, smoothed,
                        std::string(static_cast<std::size_t>(std::lround(share * kWidth)) + 1, '#'),
                        marked ? "  <- falls fastest" : "");
  }
  if (found.diverged) text += "then it diverges\n";
  text += found.suggested ? fmt::format("suggested: optimizer.lr={:.2g}\n", *found.suggested)
                          : "the loss fell at none of these rates; try others with --lr-from, --lr-to, --lr-steps\n";
  return text;
}

nlohmann::json json_of(const train::LrFound& found) {
  nlohmann::json points = nlohmann::json::array();
  for (const auto& [lr, loss, smoothed] : found.points) {
    points.push_back({{"lr", lr}, {"loss", loss}, {"smoothed", smoothed}});
  }
  return {{"suggested", found.suggested ? nlohmann::json(*found.suggested) : nlohmann::json()},
          {"diverged", found.diverged},
          {"points", points}};
}

}  // namespace lockstep::apps
