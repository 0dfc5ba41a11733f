// `lockstep logreg`: logistic regression of two classes or more.
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "json_text.h"
#include "lockstep/core/stopwatch.h"
#include "lockstep/core/text.h"
#include "lockstep/ml/algorithms/logistic_regression.h"
#include "ml/cv_options.h"
#include "ml/ml_options.h"
#include "whole_number.h"
#include "with_commas.h"

namespace lockstep::apps {
namespace {

constexpr const char kExamples[] = R"(Examples:
  lockstep logreg digits --target label -n 4 -o model.safetensors     four ranks, the model in a file
  lockstep logreg 'part-*.csv' --target bought -C 0.1 --class-weight balanced
  lockstep logreg table.csv --target bought -C inf                    without a penalty
  lockstep logreg table.csv --target bought -C 0.1,1,10 --cv 5        the best of three penalties by five folds
The coefficients have the same bits on any number of ranks and threads. See 'lockstep predict'.)";

struct Options {
  MlOptions ml;
  ml::LogisticRegressionOptions regression;
  std::vector<double> Cs{1};
  CvOptions cv;
};

/// How each C does on folds in which each class has its share.
CvChoice choose(const Options& options, const ml::Table& table) {
  const auto score = [&](double C, const ml::Table& train, const ml::Table& test) {
    auto with_C = options.regression;
    with_C.C = C;
    ml::LogisticRegression regression(with_C);
    regression.fit(train);
    return regression.score(test);
  };
  return choose_by_fits(table, options.cv.of_classes(table), "C", "accuracy", options.Cs, score);
}

void tell(const ml::LogisticPass& pass) {
  if (pass.iteration >= 10 && pass.iteration % 10 != 0) return;
  fmt::print(stderr, "iteration {}  loss {:.8g}  gradient {:.3g}\n", pass.iteration, pass.loss, pass.gradient);
}

nlohmann::json report_of(const Options& options, const ml::Table& table, const ml::LogisticRegression& regression,
                         double C, double score, double seconds) {
  const auto& [coef, intercept] = regression.model();
  nlohmann::json outputs = nlohmann::json::object();
  for (std::int64_t output = 0; output < coef.size(0); ++output) {
    nlohmann::json coefficients = nlohmann::json::object();
    for (std::int64_t column = 0; column < table.columns(); ++column) {
      coefficients[table.names()[static_cast<std::size_t>(column)]] =
          coef.const_data_ptr<double>()[output * table.columns() + column];
    }
    // One output is for the second class.
    outputs[regression.classes().name_of(coef.size(0) == 1 ? 1 : output)] = {
        {"coefficients", coefficients}, {"intercept", intercept.const_data_ptr<double>()[output]}};
  }
  nlohmann::json report = {{"algorithm", "logreg"},
                           {"rows", table.rows()},
                           {"columns", table.columns()},
                           {"ranks", table.group().size()},
                           {"classes", regression.classes().values()},
                           {"objective", regression.objective()},
                           {"accuracy", score},
                           {"iterations", regression.n_iter()},
                           {"converged", regression.converged()},
                           {"seconds", seconds},
                           {"outputs", outputs},
                           {"undetermined", regression.undetermined()},
                           {"output", options.ml.output}};
  if (std::isfinite(C)) report["C"] = C;
  return report;
}

void run(const Options& options, comm::Communicator& world) {
  const auto table = read_source(options.ml, world);
  const Stopwatch watch;
  std::optional<CvChoice> chosen;
  if (options.cv.folds > 0) chosen = choose(options, *table);
  auto of_best = options.regression;
  of_best.C = chosen ? chosen->best().front() : options.Cs.front();
  ml::LogisticRegression regression(of_best);
  regression.fit(*table, options.ml.json ? std::function<void(const ml::LogisticPass&)>() : tell);
  const double seconds = watch.seconds();
  const double score = regression.score(*table);
  if (world.rank() != 0) return;
  write_output(options.ml.output, regression.file(*table));
  if (options.ml.json) {
    auto report = report_of(options, *table, regression, of_best.C, score, seconds);
    if (chosen) report["cv"] = chosen->json();
    fmt::print("{}", json_text(report));
    return;
  }
  if (chosen) chosen->print();
  fmt::print("{}, {}: accuracy {:.6f}, objective {:.8g} after {} in {}\n", size_text(*table),
             counted(regression.classes().count(), "class"), score, regression.objective(),
             counted(regression.n_iter(), "iteration"), format_seconds(seconds));
  if (!options.ml.output.empty()) fmt::print("{}\n", options.ml.output);
}

}  // namespace

void add_logreg(CLI::App& app, const std::vector<std::string>& words) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("logreg", "Logistic regression of two classes or more, on any number of ranks");
  command->footer(kExamples);
  auto& regression = options->regression;
  options->ml.add_to(*command);
  options->ml.choice.targets.resize(1);
  command->add_option("--target", options->ml.choice.targets.front(), "Field of the classes")->required();
  command->add_option("-C,--C", options->Cs, "The inverse of the penalty; inf: none; a,b with --cv")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  command->add_flag("!--no-intercept", regression.fit_intercept, "Margins go through the origin");
  command->add_option("--class-weight", regression.class_weight, "balanced: all classes weigh alike");
  command->add_option("--tol", regression.tol, "Ends when no component of the gradient is larger")
      ->capture_default_str();
  command->add_option("--max-iter", regression.max_iter, "Iterations at most")
      ->check(whole_from(0))
      ->capture_default_str();
  command->add_option("--solver", regression.solver, "lbfgs, newton-cholesky, or auto: what is faster")
      ->capture_default_str();
  options->cv.add_to(*command);
  command->add_option("-o,--output", options->ml.output, "File for the model (.safetensors)")->check(file_name());
  command->callback([options, words] {
    for (const double C : options->Cs) (void)ml::LogisticRegression({.C = C});
    (void)ml::LogisticRegression(options->regression);
    options->cv.check(options->Cs.size(), "-C");
    options->ml.endings = {{options->ml.output, ".safetensors"}};
    on_ml_ranks(options->ml, words, {options->ml.output}, [&](comm::Communicator& world) { run(*options, world); });
  });
}

}  // namespace lockstep::apps
