#include "lockstep/train/metric.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "lockstep/core/error.h"

namespace lockstep::train {

bool is_better_low(const std::string& figure) { return figure == "loss" || figure == "perplexity"; }

void check_figure(const std::string& name, const std::vector<std::string>& names, const std::string& key) {
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  fail(Fault::Usage, fmt::format("{} = \"{}\": the validation has no such figure{}", key, name, proposal(name, names)));
}

double figure_named(const std::string& name, const Figures& figures, const std::string& key) {
  std::vector<std::string> names;
  for (const auto& figure : figures) names.push_back(figure.first);
  check_figure(name, names, key);
  return std::find_if(figures.begin(), figures.end(), [&](const auto& figure) { return figure.first == name; })->second;
}

std::vector<std::string> figure_names(const std::vector<std::shared_ptr<const Metric>>& metrics) {
  std::vector<std::string> names = {"loss"};
  for (const auto& metric : metrics) {
    for (auto& name : metric->names()) names.push_back(std::move(name));
  }
  return names;
}

std::unique_ptr<Metric> make_metric(const std::string& name, std::int64_t classes) {
  const auto& registry = MetricRegistry::instance();
  const std::size_t digits = name.find_last_not_of("0123456789") + 1;
  const std::string stem = name.substr(0, digits) + "K";
  if (registry.contains(name) || !registry.contains(stem) || digits == name.size()) {
    return registry.at("metric", name)({0, classes});
  }
  std::int64_t number = 0;
  const auto [stop, code] = std::from_chars(name.data() + digits, name.data() + name.size(), number);
  if (code != std::errc()) fail(Fault::Usage, fmt::format("the number in the metric '{}' is too large", name));
  return registry.at("metric", stem)({number, classes});
}

}  // namespace lockstep::train
