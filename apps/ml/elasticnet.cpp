// `lockstep lasso` and `lockstep elasticnet`.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "json_text.h"
#include "lockstep/core/log.h"
#include "lockstep/core/stopwatch.h"
#include "lockstep/core/text.h"
#include "lockstep/ml/algorithms/elastic_net.h"
#include "ml/cv_options.h"
#include "ml/linear_report.h"
#include "ml/ml_options.h"
#include "whole_number.h"
#include "with_commas.h"

namespace lockstep::apps {
namespace {

constexpr const char kExamples[] = R"(
The coefficients have the same bits on any number of ranks and threads. See 'lockstep predict'.)";

struct Options {
  std::string command;
  MlOptions ml;
  ml::ElasticNetOptions net;
  std::vector<double> alphas;  // empty: with folds a grid, else 1
  std::vector<double> l1_ratios;
  CvOptions cv;
};

/// The penalties of a share on sizes.
struct Path {
  ml::ElasticNetOptions net;
  std::vector<double> alphas;
};

/// How each penalty with each share does on folds, all from one sweep.
CvChoice choose(const Options& options, const ml::Table& table) {
  const int threads = at::get_num_threads();
  std::optional<ml::Gram> all;
  if (options.alphas.empty()) all = ml::gram(table, threads);
  CvChoice choice{.parameters = {"alpha"}, .metric = "R²", .candidates = {}, .scores = {}};
  const bool ratios_too = options.l1_ratios.size() > 1;
  if (ratios_too) choice.parameters.push_back("l1_ratio");
  std::vector<Path> paths;
  for (const double l1_ratio : options.l1_ratios) {
    Path path{options.net, options.alphas};
    path.net.l1_ratio = l1_ratio;
    if (all) path.alphas = ml::alpha_grid(*all, table.columns(), path.net);
    for (const double alpha : path.alphas) {
      choice.candidates.push_back({alpha});
      if (ratios_too) choice.candidates.back().push_back(l1_ratio);
    }
    paths.push_back(std::move(path));
  }
  std::size_t fits = 0, unfinished = 0;
  const auto fit = [&](const ml::Gram& train) {
    std::vector<ml::LinearModel> models;
    for (const auto& path : paths) {
      for (auto& one : ml::elastic_net_path(train, table.columns(), path.net, path.alphas)) {
        ++fits;
        unfinished += one.converged ? 0 : 1;
        models.push_back(std::move(one.model));
      }
    }
    return models;
  };
  choice.scores = ml::cross_validate_linear(table, options.cv.of_rows(table), threads, fit);
  if (unfinished > 0 && table.group().rank() == 0) {
    log().warn(
        "{} of {} fits of folds did not converge in {} iterations: raise --max-iter, --alpha or --tol, or use "
        "--scale standard",
        unfinished, fits, options.net.max_iter);
  }
  return choice;
}

void run(const Options& options, comm::Communicator& world) {
  const auto table = read_source(options.ml, world);
  const Stopwatch watch;
  std::optional<CvChoice> chosen;
  if (options.cv.folds > 0) chosen = choose(options, *table);
  auto of_best = options.net;
  of_best.l1_ratio = options.l1_ratios.front();
  if (!options.alphas.empty()) of_best.alpha = options.alphas.front();
  if (chosen) {
    of_best.alpha = chosen->best().front();
    if (options.l1_ratios.size() > 1) of_best.l1_ratio = chosen->best().back();
  }
  ml::ElasticNet net(of_best);
  net.fit(*table);
  const double seconds = watch.seconds();
  const double score = net.fitted_score();
  if (world.rank() != 0) return;
  write_output(options.ml.output, net.file(*table));
  if (options.ml.json) {
    nlohmann::json report = {{"algorithm", options.command},
                             {"rows", table->rows()},
                             {"columns", table->columns()},
                             {"ranks", world.size()},
                             {"alpha", of_best.alpha},
                             {"l1_ratio", of_best.l1_ratio},
                             {"r2", score},
                             {"iterations", net.n_iter()},
                             {"dual_gap", net.dual_gap()},
                             {"seconds", seconds},
                             {"targets", targets_json(*table, net.model())},
                             {"output", options.ml.output}};
    if (chosen) report["cv"] = chosen->json();
    fmt::print("{}", json_text(report));
    return;
  }
  if (chosen) chosen->print();
  print_coefficients(*table, net.model());
  fmt::print("{}, {} other than 0: R² {:.6f} after {} iteration{} in {}\n", size_text(*table),
             counted(net.model().coef.count_nonzero().item<std::int64_t>(), "coefficient"), score,
             fmt::join(net.n_iter(), ", "), net.n_iter() == std::vector<std::int64_t>{1} ? "" : "s",
             format_seconds(seconds));
  if (!options.ml.output.empty()) fmt::print("{}\n", options.ml.output);
}

CLI::App* add_net(CLI::App& app, const std::vector<std::string>& words, const std::shared_ptr<Options>& options,
                  const char* description, const std::string& examples) {
  auto* command = app.add_subcommand(options->command, description);
  command->footer(examples + kExamples);
  options->ml.add_to(*command);
  command->add_option("--target", options->ml.choice.targets, "Field to be explained; a,b are several, each by itself")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->required();
  command
      ->add_option("--alpha", options->alphas,
                   "Penalty on the coefficients, by default 1; a,b with --cv, for which the default is a grid of 100")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_flag("!--no-intercept", options->net.fit_intercept, "The model goes through the origin");
  command->add_flag("--positive", options->net.positive, "No coefficient is below 0");
  command->add_option("--tol", options->net.tol, "Of the duality gap, in squares of the target")->capture_default_str();
  command->add_option("--max-iter", options->net.max_iter, "Iterations at most")
      ->check(whole_from(1))
      ->capture_default_str();
  options->cv.add_to(*command);
  command->add_option("-o,--output", options->ml.output, "File for the model (.safetensors)")->check(file_name());
  command->callback([options, words] {
    for (const double alpha : options->alphas) (void)ml::ElasticNet({.alpha = alpha});
    for (const double l1_ratio : options->l1_ratios) (void)ml::ElasticNet({.l1_ratio = l1_ratio});
    (void)ml::ElasticNet(options->net);
    options->cv.check(options->alphas.size(), "--alpha");
    options->cv.check(options->l1_ratios.size(), "--l1-ratio");
    options->ml.endings = {{options->ml.output, ".safetensors"}};
    on_ml_ranks(options->ml, words, {options->ml.output}, [&](comm::Communicator& world) { run(*options, world); });
  });
  return command;
}

}  // namespace

void add_lasso(CLI::App& app, const std::vector<std::string>& words) {
  auto options = std::make_shared<Options>();
  options->command = "lasso";
  options->l1_ratios = {1};
  add_net(app, words, options, "Linear regression of few columns, on any number of ranks", R"(Examples:
  lockstep lasso diabetes --target target --alpha 0.1 -n 2 -o model.safetensors
  lockstep lasso diabetes --target target --cv 5               the best of a hundred penalties by five folds)");
}

void add_elasticnet(CLI::App& app, const std::vector<std::string>& words) {
  auto options = std::make_shared<Options>();
  options->command = "elasticnet";
  options->l1_ratios = {options->net.l1_ratio};
  auto* command = add_net(app, words, options, "Linear regression between lasso and ridge, on any number of ranks",
                          R"(Examples:
  lockstep elasticnet diabetes --target target --alpha 0.1 --l1-ratio 0.7 -n 2 -o model.safetensors
  lockstep elasticnet diabetes --target target --l1-ratio 0.1,0.5,0.9 --cv 5   the best of a grid by five folds)");
  command
      ->add_option("--l1-ratio", options->l1_ratios,
                   "Share of the penalty on sizes; the rest is on squares; a,b with --cv")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
}

}  // namespace lockstep::apps
