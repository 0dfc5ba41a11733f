// `lockstep linreg`: linear and ridge regression.
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "json_text.h"
#include "lockstep/core/text.h"
#include "lockstep/ml/algorithms/linear_regression.h"
#include "ml/ml_options.h"
#include "with_commas.h"

namespace lockstep::apps {
namespace {

constexpr const char kExamples[] = R"(Examples:
  lockstep linreg 'part-*.csv' --target price -n 8             least squares, on eight ranks
  lockstep linreg diabetes --target target --l2 0.1 -o model.safetensors
The coefficients have the same bits on any number of ranks and threads. See 'lockstep predict'.)";

struct Options {
  MlOptions ml;
  ml::LinearRegressionOptions regression;
};

nlohmann::json report_of(const Options& options, const ml::Table& table, const ml::LinearRegression& regression,
                         double score, double seconds) {
  nlohmann::json targets = nlohmann::json::object();
  for (std::int64_t target = 0; target < table.targets(); ++target) {
    const double* coef = regression.model().coef.const_data_ptr<double>() + target * table.columns();
    nlohmann::json coefficients = nlohmann::json::object();
    for (std::int64_t column = 0; column < table.columns(); ++column) {
      coefficients[table.names()[static_cast<std::size_t>(column)]] = coef[column];
    }
    targets[table.target_names()[static_cast<std::size_t>(target)]] = {
        {"coefficients", coefficients}, {"intercept", regression.model().intercept.const_data_ptr<double>()[target]}};
  }
  return {{"algorithm", "linreg"},
          {"rows", table.rows()},
          {"columns", table.columns()},
          {"ranks", table.group().size()},
          {"alpha", options.regression.alpha},
          {"r2", score},
          {"seconds", seconds},
          {"targets", targets},
          {"undetermined", regression.undetermined()},
          {"output", options.ml.output}};
}

void print(const ml::Table& table, const ml::LinearRegression& regression, double score, double seconds,
           const std::string& output) {
  constexpr std::int64_t kMost = 30;
  for (std::int64_t target = 0; target < table.targets(); ++target) {
    const double* coef = regression.model().coef.const_data_ptr<double>() + target * table.columns();
    fmt::print("{} =\n", table.target_names()[static_cast<std::size_t>(target)]);
    for (std::int64_t column = 0; column < std::min(kMost, table.columns()); ++column) {
      fmt::print("  {:>14.7g}  {}\n", coef[column], table.names()[static_cast<std::size_t>(column)]);
    }
    if (table.columns() > kMost) fmt::print("  {:>14}  {} more columns\n", "…", table.columns() - kMost);
    fmt::print("  {:>14.7g}\n", regression.model().intercept.const_data_ptr<double>()[target]);
  }
  fmt::print("{} rows of {} columns: R² {:.6f} in {}\n", with_commas(table.rows()), table.columns(), score,
             format_seconds(seconds));
  if (!output.empty()) fmt::print("{}\n", output);
}

void run(const Options& options, comm::Communicator& world) {
  const auto table = read_source(options.ml, world);
  ml::LinearRegression regression(options.regression);
  const auto begin = std::chrono::steady_clock::now();
  regression.fit(*table);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const double score = regression.score(*table);
  if (world.rank() != 0) return;
  write_output(options.ml.output, regression.file(*table), *table);
  if (options.ml.json) {
    fmt::print("{}", json_text(report_of(options, *table, regression, score, seconds)));
  } else {
    print(*table, regression, score, seconds, options.ml.output);
  }
}

}  // namespace

void add_linreg(CLI::App& app, const std::vector<std::string>& words) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("linreg", "Linear and ridge regression, on any number of ranks");
  command->footer(kExamples);
  options->ml.add_to(*command);
  command->add_option("--target", options->ml.choice.targets, "Field to be explained; a,b are several")
      ->delimiter(',')
      ->required();
  command->add_option("--l2", options->regression.alpha, "Penalty on the squared norm of the coefficients")
      ->capture_default_str();
  command->add_flag("!--no-intercept", options->regression.fit_intercept, "The model goes through the origin");
  command->add_option("-o,--output", options->ml.output, "File for the model (.safetensors)");
  command->callback([options, words] {
    (void)ml::LinearRegression(options->regression);
    on_ml_ranks(options->ml, words, [&](comm::Communicator& world) { run(*options, world); });
  });
}

}  // namespace lockstep::apps
