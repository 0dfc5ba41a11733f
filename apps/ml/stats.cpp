// `lockstep stats`: what is in a table.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/outer.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "json_text.h"
#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/core/stopwatch.h"
#include "lockstep/core/text.h"
#include "lockstep/ml/algorithms/covariance.h"
#include "lockstep/ml/check_option.h"
#include "lockstep/ml/summary.h"
#include "ml/correlations.h"
#include "ml/matrix_json.h"
#include "ml/ml_options.h"
#include "ml/write_values.h"
#include "with_commas.h"

namespace lockstep::apps {
namespace {

constexpr const char kExamples[] = R"(Examples:
  lockstep stats 'part-*.csv' -n 4                 a line for each column, on four ranks
  lockstep stats data.npy --quantiles 0.01,0.5,0.99 --json
  lockstep stats data.npy --gram products.npz      sums of products, for programs of one's own
Missing values are counted and left out; correlations are of rows in which nothing is missing. Weights count for all
but quantiles. The numbers have the
same bits on any number of ranks and threads.)";

struct Options {
  MlOptions ml;
  ml::SummaryOptions summary;
  double ddof = 1;
  std::string gram;
};

/// Pairs of more columns take memory that nobody expects, unless they are asked for.
constexpr std::int64_t kMostProducts = 1000;

double at(const at::Tensor& values, std::int64_t place) { return values.const_data_ptr<double>()[place]; }

std::string percent(double share) { return fmt::format("{:g} %", 100 * share); }

void print(const Options& options, const ml::Table& table, const ml::Summary& found, double seconds) {
  constexpr std::int64_t kMost = 60;
  const auto& [moments, quantiles, gram, complete] = found;
  const bool any_infinite = moments.infinite.gt(0).any().item<bool>();
  const at::Tensor spread = moments.variance(options.ddof).sqrt();
  const std::int64_t columns = table.columns();
  std::size_t widest = 6;
  for (std::int64_t i = 0; i < std::min(columns, kMost); ++i) {
    widest = std::max(widest, table.names()[static_cast<std::size_t>(i)].size());
  }
  std::string heads;
  for (const double share : options.summary.quantiles) heads += fmt::format("  {:>11}", percent(share));
  fmt::print("{:<{}}  {:>13}  {:>9}{}  {:>11}  {:>11}  {:>11}{}  {:>11}\n", "column", widest, "values", "missing",
             any_infinite ? "   infinite" : "", "mean", "std", "min", heads, "max");
  for (std::int64_t i = 0; i < std::min(columns, kMost); ++i) {
    std::string inner;
    for (std::int64_t share = 0; share < quantiles.size(0); ++share) {
      inner += fmt::format("  {:>11.5g}", at(quantiles, share * columns + i));
    }
    const auto count_of = [i](const at::Tensor& counts) {
      return with_commas(static_cast<std::int64_t>(at(counts, i)));
    };
    fmt::print("{:<{}}  {:>13}  {:>9}{}  {:>11.5g}  {:>11.5g}  {:>11.5g}{}  {:>11.5g}\n",
               table.names()[static_cast<std::size_t>(i)], widest, count_of(moments.count), count_of(moments.missing),
               any_infinite ? fmt::format("  {:>9}", count_of(moments.infinite)) : "", at(moments.mean, i),
               at(spread, i), at(moments.min, i), inner, at(moments.max, i));
  }
  if (columns > kMost) fmt::print("… {}\n", counted(columns - kMost, "more column"));
  if (gram) print_strongest(ml::correlation_of(gram->centred), table.names());
  const double bytes = static_cast<double>(table.rows() * columns) * (table.type() == at::kFloat ? 4 : 8);
  fmt::print("{}{} in {}, {:.2f} GB/s\n", size_text(table),
             options.summary.products ? fmt::format(", {} of them complete,", with_commas(complete)) : "",
             format_seconds(seconds), bytes / seconds / 1e9);
  if (!options.gram.empty()) fmt::print("{}\n", options.gram);
}

void print_json(const Options& options, const ml::Table& table, const ml::Summary& found, double seconds) {
  const auto& [moments, quantiles, gram, complete] = found;
  const at::Tensor spread = moments.variance(options.ddof).sqrt();
  nlohmann::json columns = nlohmann::json::array();
  for (std::int64_t i = 0; i < table.columns(); ++i) {
    nlohmann::json of = nlohmann::json::object();
    for (std::size_t share = 0; share < options.summary.quantiles.size(); ++share) {
      of[fmt::format("{:g}", options.summary.quantiles[share])] =
          at(quantiles, static_cast<std::int64_t>(share) * table.columns() + i);
    }
    columns.push_back({{"name", table.names()[static_cast<std::size_t>(i)]},
                       {"count", at(moments.count, i)},
                       {"missing", at(moments.missing, i)},
                       {"infinite", at(moments.infinite, i)},
                       {"sum", at(moments.sum, i)},
                       {"mean", at(moments.mean, i)},
                       {"std", at(spread, i)},
                       {"min", at(moments.min, i)},
                       {"max", at(moments.max, i)},
                       {"quantiles", of}});
  }
  nlohmann::json report = {{"rows", table.rows()}, {"weight", moments.weight}, {"ranks", table.group().size()},
                           {"ddof", options.ddof}, {"columns", columns},       {"complete_rows", complete},
                           {"seconds", seconds},   {"output", options.gram}};
  if (!options.summary.products) report.erase("complete_rows");  // nobody looked
  if (gram) {
    report["mean"] = json_of(gram->mean);
    report["centred_products"] = json_of(gram->centred);
    report["correlation"] = json_of(ml::correlation_of(gram->centred));
  }
  fmt::print("{}", json_text(report));
}

/// A row for each column.
void write_gram(const std::string& path, const ml::Gram& gram) {
  write_fields(path, {{{.name = "weight"}, at::full_like(gram.mean, gram.weight)},
                      {{.name = "mean"}, gram.mean},
                      {{.name = "gram"}, gram.centred + gram.weight * at::outer(gram.mean, gram.mean)},
                      {{.name = "centred"}, gram.centred},
                      {{.name = "correlation"}, ml::correlation_of(gram.centred)}});
}

void run(Options options, comm::Communicator& world) {
  const auto table = read_source(options.ml, world);
  options.summary.products = !options.gram.empty() || table->columns() <= kMostProducts;
  const Stopwatch watch;
  const ml::Summary found = ml::summary(*table, options.summary);
  const double seconds = watch.seconds();
  // Of one row the std is not known, as pandas has it; more than that takes too much away.
  if (options.ddof > std::max(found.moments.weight, 1.0)) {
    fail(Fault::Usage, fmt::format("--ddof {} is more than the rows weigh, {}", options.ddof, found.moments.weight));
  }
  if (!options.gram.empty() && !found.gram) {
    fail(Fault::Data, "every row has a missing value: there are no products for " + options.gram);
  }
  if (world.rank() != 0) return;
  if (!options.gram.empty()) write_gram(options.gram, *found.gram);
  options.ml.json ? print_json(options, *table, found, seconds) : print(options, *table, found, seconds);
}

}  // namespace

void add_stats(CLI::App& app, const std::vector<std::string>& words) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("stats", "Moments, quantiles, gaps and correlations of columns, in one sweep");
  command->footer(kExamples);
  options->ml.add_to(*command);
  command->add_option("--quantiles", options->summary.quantiles, "Shares from 0 to 1")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  command->add_option("--ddof", options->ddof, "Of the std: 1 as pandas, 0 as numpy")->capture_default_str();
  command->add_option("--gram", options->gram, "File for sums of products: .npz, .h5 …");
  command->callback([options, words] {
    check_can_hold(options->gram,
                   {{.name = "weight", .type = at::kDouble}, {.name = "gram", .type = at::kDouble, .shape = {2}}});
    ml::check_from_zero_on(options->ddof, "--ddof");
    on_ml_ranks(options->ml, words, {options->gram}, [&](comm::Communicator& world) { run(*options, world); });
  });
}

}  // namespace lockstep::apps
