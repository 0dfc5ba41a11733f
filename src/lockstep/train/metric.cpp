#include "lockstep/train/metric.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/core/error.h"

namespace lockstep::train {

bool is_better_low(const std::string& figure) { return figure == "loss" || figure == "perplexity"; }

double figure_named(const std::string& name, const Figures& figures, const std::string& key) {
  const auto found =
      std::find_if(figures.begin(), figures.end(), [&](const auto& figure) { return figure.first == name; });
  if (found != figures.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& figure : figures) names.push_back(figure.first);
  fail(Fault::Usage, fmt::format("{} = \"{}\": the validation has no such figure{}", key, name, proposal(name, names)));
}

}  // namespace lockstep::train
