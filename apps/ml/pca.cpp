// `lockstep pca`: the directions along which rows vary most.
#include "lockstep/ml/algorithms/pca.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "chart.h"
#include "commands.h"
#include "json_text.h"
#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/core/stopwatch.h"
#include "lockstep/core/text.h"
#include "ml/matrix_json.h"
#include "ml/ml_options.h"
#include "whole_number.h"
#include "with_commas.h"

namespace lockstep::apps {
namespace {

constexpr const char kExamples[] = R"(Examples:
  lockstep pca data.h5:/x --components 20 -n 4 -o model.safetensors     the first 20, on four ranks
  lockstep pca 'part-*.csv' --components 0.95 --plot explained.svg      as many as explain 95 % of the variance
  lockstep predict model.safetensors new.csv -o components.csv          rows in their coordinates: pc1, pc2 ...
The components have the same bits on any number of ranks and threads.)";

struct Options {
  MlOptions ml;
  ml::PCAOptions pca;
  std::string plot;
};

/// Shares of the components, and of each together with those before it.
struct Shares {
  std::vector<double> each, together;

  explicit Shares(const ml::PCA& pca) {
    double sum = 0;
    for (std::int64_t i = 0; i < pca.n_components(); ++i) {
      each.push_back(pca.explained_variance_ratio().const_data_ptr<double>()[i]);
      together.push_back(sum += each.back());
    }
  }
};

std::string chart_of(const Shares& shares) {
  Chart chart{.title = "Explained variance", .places = "component", .values = "share", .curves = {}};
  for (const auto& [name, values] :
       {std::pair("together", &shares.together), std::pair("each by itself", &shares.each)}) {
    Chart::Curve curve{name, {}};
    for (const double value : *values) curve.points.emplace_back(static_cast<double>(curve.points.size() + 1), value);
    chart.curves.push_back(std::move(curve));
  }
  return svg_chart(chart);
}

void print(const Options& options, const ml::Table& table, const ml::PCA& pca, double seconds) {
  constexpr std::int64_t kMost = 30;
  const Shares shares(pca);
  const bool one = pca.n_components() == 1;
  fmt::print("{:>6}  {:>12}  {:>8}  {:>8}\n", "", "variance", "share", "together");
  for (std::int64_t i = 0; i < std::min(kMost, pca.n_components()); ++i) {
    const auto place = static_cast<std::size_t>(i);
    fmt::print("{:>6}  {:>12.6g}  {:>8.4f}  {:>8.4f}\n", fmt::format("pc{}", i + 1),
               pca.explained_variance().const_data_ptr<double>()[i], shares.each[place], shares.together[place]);
  }
  if (pca.n_components() > kMost) fmt::print("{:>6}  {} more components\n", "…", pca.n_components() - kMost);
  fmt::print("{}: {} explain{} {:.2f} % of the variance, by {} in {}\n", size_text(table),
             counted(pca.n_components(), "component"), one ? "s" : "", 100 * shares.together.back(), pca.svd_solver(),
             format_seconds(seconds));
  for (const auto& file : {options.ml.output, options.plot}) {
    if (!file.empty()) fmt::print("{}\n", file);
  }
}

void print_json(const Options& options, const ml::Table& table, const ml::PCA& pca, double seconds) {
  const nlohmann::json report = {{"algorithm", "pca"},
                                 {"rows", table.rows()},
                                 {"columns", table.names()},
                                 {"ranks", table.group().size()},
                                 {"components", pca.n_components()},
                                 {"svd_solver", pca.svd_solver()},
                                 {"whiten", options.pca.whiten},
                                 {"explained_variance", json_of(pca.explained_variance())},
                                 {"explained_variance_ratio", json_of(pca.explained_variance_ratio())},
                                 {"singular_values", json_of(pca.singular_values())},
                                 {"noise_variance", pca.noise_variance()},
                                 {"seconds", seconds},
                                 {"output", options.ml.output}};
  fmt::print("{}", json_text(report));
}

void run(const Options& options, comm::Communicator& world) {
  const auto table = read_source(options.ml, world);
  ml::PCA pca(options.pca);
  const Stopwatch watch;
  pca.fit(*table);
  const double seconds = watch.seconds();
  if (world.rank() != 0) return;
  write_output(options.ml.output, pca.file(*table));
  if (!options.plot.empty()) write_whole(options.plot, chart_of(Shares(pca)));
  options.ml.json ? print_json(options, *table, pca, seconds) : print(options, *table, pca, seconds);
}

}  // namespace

void add_pca(CLI::App& app, const std::vector<std::string>& words) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("pca", "Principal components of rows, on any number of ranks");
  command->footer(kExamples);
  auto& pca = options->pca;
  options->ml.add_to(*command);
  auto* components =
      command->add_option("--components", pca.n_components,
                          "How many; below 1: as many as explain that share of the variance; by default all");
  command->add_flag("--whiten", pca.whiten, "Components of variance 1");
  command->add_option("--solver", pca.svd_solver, "covariance_eigh, full or randomized")->capture_default_str();
  const std::vector<CLI::Option*> of_randomized = {
      command->add_option("--iterated-power", pca.iterated_power, "Sweeps of randomized; by default 7 or 4")
          ->check(whole_from(0)),
      command->add_option("--oversamples", pca.n_oversamples, "Vectors of randomized beside the components")
          ->capture_default_str(),
      command->add_option("--seed", pca.random_state, "Of chance, in randomized")
          ->check(whole_from(0))
          ->capture_default_str()};
  command->add_option("--plot", options->plot, "Draw the explained variance into this SVG file");
  command->add_option("-o,--output", options->ml.output, "File for the model (.safetensors)")->check(file_name());
  command->callback([options, words, components, of_randomized] {
    if (components->count() > 0 && options->pca.n_components == 0)
      fail(Fault::Usage, "--components 0: it is a number from 1 on, or a share below 1; leave it out for all");
    (void)ml::PCA(options->pca);
    const std::string& solver = options->pca.svd_solver;
    if (solver == "full" || solver == "covariance_eigh") refuse_given(of_randomized, "--solver " + solver);
    options->ml.endings = {{options->ml.output, ".safetensors"}, {options->plot, ".svg"}};
    on_ml_ranks(options->ml, words, {options->ml.output, options->plot},
                [&](comm::Communicator& world) { run(*options, world); });
  });
}

}  // namespace lockstep::apps
