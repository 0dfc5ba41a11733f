#include "lockstep/train/best_steps.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lockstep::train {

void BestSteps::judge(std::int64_t step, const Figures& figures) {
  const double value = figure_named(figure_, figures, "checkpoints.best_by");
  if (std::isnan(value)) return forget(step);
  costs_[step] = is_better_low(figure_) ? value : -value;
}

void BestSteps::recall(const std::vector<Evaluation>& evaluations) {
  for (const auto& [of, step, epoch, samples, figures] : evaluations) {
    const bool has_it =
        std::any_of(figures.begin(), figures.end(), [&](const auto& figure) { return figure.first == figure_; });
    if (of == "validation" && has_it) judge(step, figures);
  }
}

void BestSteps::forget_all_but(const std::vector<std::int64_t>& steps) {
  std::erase_if(costs_, [&](const auto& cost) { return !std::binary_search(steps.begin(), steps.end(), cost.first); });
}

std::vector<std::int64_t> BestSteps::best(std::int64_t count) const {
  std::vector<std::int64_t> all;
  for (const auto& [step, cost] : costs_) all.push_back(step);
  return best(count, all);
}

std::vector<std::int64_t> BestSteps::best(std::int64_t count, const std::vector<std::int64_t>& steps) const {
  std::vector<std::pair<double, std::int64_t>> ranked;
  for (const auto& [step, cost] : costs_) {
    if (std::binary_search(steps.begin(), steps.end(), step)) ranked.emplace_back(cost, step);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::int64_t> result;
  for (const auto& [cost, step] : ranked) {
    if (std::ssize(result) < count) result.push_back(step);
  }
  return result;
}

}  // namespace lockstep::train
