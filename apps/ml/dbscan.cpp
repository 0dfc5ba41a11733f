// `lockstep dbscan`: clusters of rows that lie densely.
#include "lockstep/ml/algorithms/dbscan.h"

#include <memory>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "json_text.h"
#include "lockstep/core/stopwatch.h"
#include "lockstep/core/text.h"
#include "lockstep/ml/own_rows.h"
#include "ml/ml_options.h"
#include "ml/write_values.h"
#include "whole_number.h"
#include "with_commas.h"

namespace lockstep::apps {
namespace {

constexpr const char kExamples[] = R"(Examples:
  lockstep dbscan places.csv --columns lon,lat --eps 0.01 --min-samples 10 -o labels.csv
  lockstep dbscan data.npy --eps 0.5 -n 4 -o labels.csv        on four ranks
The labels are scikit-learn's, on any number of ranks and threads; -1 is noise. The second field says of a row
whether it is a core row: that at least --min-samples rows, with itself, lie within --eps.)";

struct Options {
  MlOptions ml;
  ml::DBSCANOptions dbscan;
};

void run(const Options& options, comm::Communicator& world) {
  const auto table = read_source(options.ml, world);
  ml::DBSCAN dbscan(options.dbscan);
  const Stopwatch watch;
  dbscan.fit(*table);
  const double seconds = watch.seconds();
  const at::Tensor labels = ml::gather_rows(*table, dbscan.labels()), core = ml::gather_rows(*table, dbscan.core());
  if (world.rank() != 0) return;
  if (!options.ml.output.empty()) {
    write_values(options.ml.output, {"label", "core"}, {}, at::stack({labels, core.to(at::kLong)}, 1));
  }
  const auto noise = labels.lt(0).sum().item<std::int64_t>(), cores = core.sum().item<std::int64_t>();
  if (options.ml.json) {
    fmt::print("{}", json_text({{"algorithm", "dbscan"},
                                {"rows", table->rows()},
                                {"columns", table->columns()},
                                {"ranks", world.size()},
                                {"eps", options.dbscan.eps},
                                {"min_samples", options.dbscan.min_samples},
                                {"clusters", dbscan.n_clusters()},
                                {"core", cores},
                                {"noise", noise},
                                {"seconds", seconds},
                                {"output", options.ml.output}}));
    return;
  }
  fmt::print("{}: {}, {}, {} of noise in {}\n", size_text(*table), counted(dbscan.n_clusters(), "cluster"),
             counted(cores, "core row"), with_commas(noise), format_seconds(seconds));
  if (!options.ml.output.empty()) fmt::print("{}\n", options.ml.output);
}

}  // namespace

void add_dbscan(CLI::App& app, const std::vector<std::string>& words) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("dbscan", "Clusters of rows that lie densely, on any number of ranks");
  command->footer(kExamples);
  options->ml.add_to(*command);
  options->ml.keeps_rows = true;
  command->add_option("--eps", options->dbscan.eps, "Rows at most so far from each other are near")
      ->capture_default_str();
  command->add_option("--min-samples", options->dbscan.min_samples, "Rows (or their weight) near a core row")
      ->check(whole_from(1))
      ->capture_default_str();
  command->add_option("-o,--output", options->ml.output, "File for the labels: .csv, .npy, …")->check(file_name());
  command->callback([options, words] {
    (void)ml::DBSCAN(options->dbscan);
    check_names_format(options->ml.output);
    on_ml_ranks(options->ml, words, {options->ml.output}, [&](comm::Communicator& world) { run(*options, world); });
  });
}

}  // namespace lockstep::apps
