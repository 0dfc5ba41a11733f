// `lockstep svd`: singular values and vectors of rows as they are.
#include "lockstep/ml/algorithms/svd.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "json_text.h"
#include "lockstep/core/stopwatch.h"
#include "lockstep/core/text.h"
#include "ml/matrix_json.h"
#include "ml/ml_options.h"
#include "whole_number.h"
#include "with_commas.h"

namespace lockstep::apps {
namespace {

constexpr const char kExamples[] = R"(Examples:
  lockstep svd data.npy --components 10 -n 4 -o model.safetensors   the largest ten, by a random subspace
  lockstep svd data.npy --components 10 --algorithm exact           the same through QR of all rows
  lockstep svd data.npy --full -o model.safetensors                 all of them
'lockstep predict' gives rows along the vectors (svd1, svd2 ...), of a full one rows of u (u1, u2 ...).
Values and vectors have the same bits on any number of ranks and threads. Unlike 'lockstep pca', nothing is centred.)";

struct Options {
  MlOptions ml;
  ml::TruncatedSVDOptions svd;
  bool full = false;
};

/// What a fit gives, whichever it was.
struct Fitted {
  at::Tensor singular_values;
  ml::ModelFile model;
  at::Tensor ratio = {};  // of a truncated one
};

Fitted fit(const Options& options, const ml::Table& table) {
  if (options.full) {
    ml::SVD svd({.threads = options.svd.threads});
    svd.fit(table);
    return {svd.singular_values(), svd.file(table)};
  }
  ml::TruncatedSVD svd(options.svd);
  svd.fit(table);
  return {svd.singular_values(), svd.file(table), svd.explained_variance_ratio()};
}

void print(const Options& options, const ml::Table& table, const Fitted& fitted, double seconds) {
  constexpr std::int64_t kMost = 30;
  const std::int64_t count = fitted.singular_values.numel();
  fmt::print("{:>14}  {}\n", "singular value", fitted.ratio.defined() ? "share of the variance" : "");
  for (std::int64_t i = 0; i < std::min(kMost, count); ++i) {
    const std::string share =
        fitted.ratio.defined() ? fmt::format("{:.4f}", fitted.ratio.const_data_ptr<double>()[i]) : "";
    fmt::print("{:>14.7g}  {}\n", fitted.singular_values.const_data_ptr<double>()[i], share);
  }
  if (count > kMost) fmt::print("{:>14}  {} more\n", "…", count - kMost);
  fmt::print("{}: {} in {}\n", size_text(table), counted(count, "singular value"), format_seconds(seconds));
  if (!options.ml.output.empty()) fmt::print("{}\n", options.ml.output);
}

void run(const Options& options, comm::Communicator& world) {
  const auto table = read_source(options.ml, world);
  const Stopwatch watch;
  const Fitted fitted = fit(options, *table);
  const double seconds = watch.seconds();
  if (world.rank() != 0) return;
  write_output(options.ml.output, fitted.model);
  if (!options.ml.json) return print(options, *table, fitted, seconds);
  nlohmann::json report = {{"algorithm", fitted.model.algorithm},
                           {"rows", table->rows()},
                           {"columns", table->names()},
                           {"ranks", world.size()},
                           {"singular_values", json_of(fitted.singular_values)},
                           {"seconds", seconds},
                           {"output", options.ml.output}};
  if (fitted.ratio.defined()) report["explained_variance_ratio"] = json_of(fitted.ratio);
  fmt::print("{}", json_text(report));
}

}  // namespace

void add_svd(CLI::App& app, const std::vector<std::string>& words) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("svd", "Singular values and vectors of rows, on any number of ranks");
  command->footer(kExamples);
  auto& svd = options->svd;
  options->ml.add_to(*command);
  auto* components = command->add_option("--components", svd.n_components, "How many of the largest")
                         ->check(whole_from(1))
                         ->capture_default_str();
  auto* algorithm = command->add_option("--algorithm", svd.algorithm, "randomized or exact")->capture_default_str();
  const std::vector<CLI::Option*> of_randomized = {
      command->add_option("--n-iter", svd.n_iter, "Sweeps of randomized")->check(whole_from(0))->capture_default_str(),
      command->add_option("--oversamples", svd.n_oversamples, "Vectors of randomized beside the components")
          ->check(whole_from(1))
          ->capture_default_str(),
      command->add_option("--seed", svd.random_state, "Of chance, in randomized")
          ->check(whole_from(0))
          ->capture_default_str()};
  auto* full = command->add_flag("--full", options->full, "All singular values and vectors");
  for (auto* option : {components, algorithm}) full->excludes(option);
  for (auto* option : of_randomized) full->excludes(option);
  command->add_option("-o,--output", options->ml.output, "File for the model (.safetensors)")->check(file_name());
  command->callback([options, words, of_randomized] {
    (void)ml::TruncatedSVD(options->svd);
    if (options->svd.algorithm != "randomized") refuse_given(of_randomized, "--algorithm " + options->svd.algorithm);
    options->ml.endings = {{options->ml.output, ".safetensors"}};
    on_ml_ranks(options->ml, words, {options->ml.output}, [&](comm::Communicator& world) { run(*options, world); });
  });
}

}  // namespace lockstep::apps
