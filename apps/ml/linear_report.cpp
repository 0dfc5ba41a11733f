#include "ml/linear_report.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace lockstep::apps {

nlohmann::json targets_json(const ml::Table& table, const ml::LinearModel& model) {
  nlohmann::json targets = nlohmann::json::object();
  for (std::int64_t target = 0; target < table.targets(); ++target) {
    const double* coef = model.coef.const_data_ptr<double>() + target * table.columns();
    nlohmann::json coefficients = nlohmann::json::object();
    for (std::int64_t column = 0; column < table.columns(); ++column) {
      coefficients[table.names()[static_cast<std::size_t>(column)]] = coef[column];
    }
    targets[table.target_names()[static_cast<std::size_t>(target)]] = {
        {"coefficients", coefficients}, {"intercept", model.intercept.const_data_ptr<double>()[target]}};
  }
  return targets;
}

void print_coefficients(const ml::Table& table, const ml::LinearModel& model) {
  constexpr std::int64_t kMost = 30;
  for (std::int64_t target = 0; target < table.targets(); ++target) {
    const double* coef = model.coef.const_data_ptr<double>() + target * table.columns();
    fmt::print("{} =\n", table.target_names()[static_cast<std::size_t>(target)]);
    for (std::int64_t column = 0; column < std::min(kMost, table.columns()); ++column) {
      fmt::print("  {:>14.7g}  {}\n", coef[column], table.names()[static_cast<std::size_t>(column)]);
    }
    if (table.columns() > kMost) fmt::print("  {:>14}  {} more columns\n", "…", table.columns() - kMost);
    fmt::print("  {:>14.7g}\n", model.intercept.const_data_ptr<double>()[target]);
  }
}

}  // namespace lockstep::apps
