// `lockstep linreg`: linear and ridge regression.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "json_text.h"
#include "lockstep/core/stopwatch.h"
#include "lockstep/core/text.h"
#include "lockstep/ml/algorithms/linear_regression.h"
#include "lockstep/ml/check_option.h"
#include "lockstep/ml/least_squares.h"
#include "ml/cv_options.h"
#include "ml/linear_report.h"
#include "ml/ml_options.h"

namespace lockstep::apps {
namespace {

constexpr const char kExamples[] = R"(Examples:
  lockstep linreg 'part-*.csv' --target price -n 8             least squares, on eight ranks
  lockstep linreg diabetes --target target --l2 0.1 -o model.safetensors
  lockstep linreg diabetes --target target --l2 0.01,0.1,1 --cv 5   the best of three penalties by five folds
The coefficients have the same bits on any number of ranks and threads. See 'lockstep predict'.)";

struct Options {
  MlOptions ml;
  ml::LinearRegressionOptions regression;
  std::vector<double> alphas{0};
  CvOptions cv;
};

/// How each penalty does on folds, all from one sweep.
CvChoice choose(const Options& options, const ml::Table& table) {
  const auto fit = [&](const ml::Gram& train) {
    const ml::NormalEquations equations(train, table.columns(), options.regression.fit_intercept);
    std::vector<ml::LinearModel> models;
    for (const double alpha : options.alphas) models.push_back(equations.solve(alpha));
    return models;
  };
  CvChoice choice{.parameters = {"l2"}, .metric = "R²", .candidates = {}, .scores = {}};
  for (const double alpha : options.alphas) choice.candidates.push_back({alpha});
  choice.scores = ml::cross_validate_linear(table, options.cv.of_rows(table), at::get_num_threads(), fit);
  return choice;
}

nlohmann::json report_of(const Options& options, const ml::Table& table, const ml::LinearRegression& regression,
                         double alpha, double score, double seconds) {
  return {{"algorithm", "linreg"},
          {"rows", table.rows()},
          {"columns", table.columns()},
          {"ranks", table.group().size()},
          {"alpha", alpha},
          {"solver", regression.solver()},
          {"r2", score},
          {"seconds", seconds},
          {"targets", targets_json(table, regression.model())},
          {"undetermined", regression.undetermined()},
          {"output", options.ml.output}};
}

void print(const ml::Table& table, const ml::LinearRegression& regression, double score, double seconds,
           const std::string& output) {
  print_coefficients(table, regression.model());
  fmt::print("{}: R² {:.6f} by {} in {}\n", size_text(table), score, regression.solver(), format_seconds(seconds));
  if (!output.empty()) fmt::print("{}\n", output);
}

void run(const Options& options, comm::Communicator& world) {
  const auto table = read_source(options.ml, world);
  const Stopwatch watch;
  std::optional<CvChoice> chosen;
  if (options.cv.folds > 0) chosen = choose(options, *table);
  auto of_best = options.regression;
  of_best.alpha = chosen ? chosen->best().front() : options.alphas.front();
  ml::LinearRegression regression(of_best);
  regression.fit(*table);
  const double seconds = watch.seconds();
  const auto of_fit = regression.fitted_score();
  const double score = of_fit ? *of_fit : regression.score(*table);
  if (world.rank() != 0) return;
  write_output(options.ml.output, regression.file(*table));
  if (options.ml.json) {
    auto report = report_of(options, *table, regression, of_best.alpha, score, seconds);
    if (chosen) report["cv"] = chosen->json();
    fmt::print("{}", json_text(report));
  } else {
    if (chosen) chosen->print();
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
      ->allow_extra_args(false)
      ->required();
  command->add_option("--l2", options->alphas, "Penalty on the squared norm of the coefficients; a,b with --cv")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  command->add_flag("!--no-intercept", options->regression.fit_intercept, "The model goes through the origin");
  command
      ->add_option("--solver", options->regression.solver,
                   "gram: from products of columns; qr: from the rows' triangular factor, one sweep more that keeps "
                   "digits of columns which nearly depend on each other; auto: qr where it is needed")
      ->capture_default_str();
  options->cv.add_to(*command);
  command->add_option("-o,--output", options->ml.output, "File for the model (.safetensors)")->check(file_name());
  command->callback([options, words] {
    for (const double alpha : options->alphas) ml::check_from_zero_on(alpha, "--l2");
    (void)ml::LinearRegression(options->regression);
    options->cv.check(options->alphas.size(), "--l2");
    options->ml.endings = {{options->ml.output, ".safetensors"}};
    on_ml_ranks(options->ml, words, {options->ml.output}, [&](comm::Communicator& world) { run(*options, world); });
  });
}

}  // namespace lockstep::apps
