#include "ml/cv_options.h"

#include <ATen/Parallel.h>
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

void CvOptions::check(std::size_t values, const char* option) const {
  if (values > 1 && folds == 0) {
    fail(Fault::Usage, fmt::format("{} values of {}: --cv 5 chooses among them by five folds", values, option));
  }
}

ml::Folds CvOptions::of_rows(const ml::Table& table) const { return ml::deal_rows(table, folds, shuffle_seed()); }

ml::Folds CvOptions::of_classes(const ml::Table& table) const {
  const int threads = at::get_num_threads();
  return ml::deal_classes(table, ml::Classes::of(table, threads), folds, threads, shuffle_seed());
}

nlohmann::json CvChoice::json() const {
  const auto named = [&](const std::vector<double>& values) {
    nlohmann::json result = nlohmann::json::object();
    for (std::size_t i = 0; i < parameters.size(); ++i) result[parameters[i]] = values[i];
    return result;
  };
  nlohmann::json all = nlohmann::json::array();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    auto one = named(candidates[i]);
    one["mean"] = scores[i].mean();
    one["deviation"] = scores[i].deviation();
    one["scores"] = scores[i].of_folds;
    all.push_back(one);
  }
  return {{"folds", scores.front().of_folds.size()}, {"metric", metric}, {"candidates", all}, {"best", named(best())}};
}

void CvChoice::print() const {
  constexpr std::size_t kMost = 20;
  const std::size_t every = (candidates.size() + kMost - 1) / kMost, chosen = ml::best_of(scores);
  for (const auto& parameter : parameters) fmt::print("{:>13}  ", parameter);
  fmt::print("{:>13}  {:>9}\n", "mean " + metric, "deviation");
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (i % every != 0 && i != chosen) continue;
    for (const double value : candidates[i]) fmt::print("{:>13.6g}  ", value);
    fmt::print("{:>13.6f}  {:>9.6f}{}\n", scores[i].mean(), scores[i].deviation(), i == chosen ? "  best" : "");
  }
}

CvChoice choose_by_fits(
    const ml::Table& table, const ml::Folds& folds, const std::string& parameter, const std::string& metric,
    const std::vector<double>& values,
    const std::function<double(double value, const ml::Table& train, const ml::Table& test)>& score) {
  CvChoice choice{.parameters = {parameter}, .metric = metric, .candidates = {}, .scores = {}};
  for (const double value : values) {
    choice.candidates.push_back({value});
    choice.scores.push_back(ml::cross_validate(
        table, folds, [&](const ml::Table& train, const ml::Table& test) { return score(value, train, test); }));
  }
  return choice;
}

}  // namespace lockstep::apps
