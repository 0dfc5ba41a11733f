#include "ml/cv_options.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lockstep/core/error.h"
#include "whole_number.h"

namespace lockstep::apps {

void CvOptions::add_to(CLI::App& command) {
  auto* cv =
      command.add_option("--cv", folds, "Folds, each left out once, by which the best of several values is chosen")
          ->check(whole_from(2));
  auto* shuffled = command.add_flag("--shuffle", shuffle, "Rows are dealt to folds by chance")->needs(cv);
  command.add_option("--seed", seed, "Of that chance")->check(whole_from(0))->needs(shuffled)->capture_default_str();
}

void CvOptions::check(const std::vector<double>& values, const char* option) const {
  if (values.size() > 1 && folds == 0) {
    fail(Fault::Usage, fmt::format("{} values of {}: --cv 5 chooses among them by five folds", values.size(), option));
  }
}

nlohmann::json CvChoice::json() const {
  nlohmann::json candidates = nlohmann::json::array();
  for (std::size_t i = 0; i < values.size(); ++i) {
    candidates.push_back({{parameter, values[i]},
                          {"mean", scores[i].mean()},
                          {"deviation", scores[i].deviation()},
                          {"scores", scores[i].of_folds}});
  }
  return {{"folds", scores.front().of_folds.size()}, {"metric", metric}, {"candidates", candidates}, {"best", best()}};
}

void CvChoice::print() const {
  constexpr std::size_t kMost = 20;
  const std::size_t every = (values.size() + kMost - 1) / kMost, chosen = ml::best_of(scores);
  fmt::print("{:>12}  {:>12}  {:>9}\n", parameter, "mean " + metric, "deviation");
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % every != 0 && i != chosen) continue;
    fmt::print("{:>12.6g}  {:>12.6f}  {:>9.6f}{}\n", values[i], scores[i].mean(), scores[i].deviation(),
               i == chosen ? "  best" : "");
  }
}

}  // namespace lockstep::apps
