// `lockstep covariance`: how columns vary together.
#include "lockstep/ml/algorithms/covariance.h"

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "json_text.h"
#include "lockstep/core/stopwatch.h"
#include "lockstep/core/text.h"
#include "ml/correlations.h"
#include "ml/matrix_json.h"
#include "ml/ml_options.h"

namespace lockstep::apps {
namespace {

constexpr const char kExamples[] = R"(Examples:
  lockstep covariance data.npy -n 4 -o model.safetensors       four ranks, the matrices in a file
  lockstep covariance 'part-*.csv' --ddof 1 --json             as numpy's cov
The matrices have the same bits on any number of ranks and threads. 'lockstep predict' gives the squared distance of
each row from the others, in units of their covariance: outliers have large ones.)";

struct Options {
  MlOptions ml;
  ml::EmpiricalCovarianceOptions covariance;
};

void print(const ml::Table& table, const ml::EmpiricalCovariance& covariance, double seconds,
           const std::string& output) {
  print_strongest(covariance.correlation(), table.names());
  fmt::print("{} in {}\n", size_text(table), format_seconds(seconds));
  if (!output.empty()) fmt::print("{}\n", output);
}

void run(const Options& options, comm::Communicator& world) {
  const auto table = read_source(options.ml, world);
  ml::EmpiricalCovariance covariance(options.covariance);
  const Stopwatch watch;
  covariance.fit(*table);
  const double seconds = watch.seconds();
  if (world.rank() != 0) return;
  write_output(options.ml.output, covariance.file(*table));
  if (!options.ml.json) return print(*table, covariance, seconds, options.ml.output);
  const nlohmann::json report = {{"algorithm", "covariance"},
                                 {"rows", table->rows()},
                                 {"columns", table->names()},
                                 {"ranks", world.size()},
                                 {"ddof", options.covariance.ddof},
                                 {"location", json_of(covariance.location())},
                                 {"covariance", json_of(covariance.covariance())},
                                 {"correlation", json_of(covariance.correlation())},
                                 {"seconds", seconds},
                                 {"output", options.ml.output}};
  fmt::print("{}", json_text(report));
}

}  // namespace

void add_covariance(CLI::App& app, const std::vector<std::string>& words) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("covariance", "Covariance and correlation of columns, on any number of ranks");
  command->footer(kExamples);
  options->ml.add_to(*command);
  command
      ->add_option("--ddof", options->covariance.ddof, "Taken from the number of rows: 0 as scikit-learn, 1 as numpy")
      ->capture_default_str();
  command->add_flag("--assume-centered", options->covariance.assume_centered, "Around 0 instead of around the mean");
  command->add_option("-o,--output", options->ml.output, "File for the model (.safetensors)")->check(file_name());
  command->callback([options, words] {
    (void)ml::EmpiricalCovariance(options->covariance);
    options->ml.endings = {{options->ml.output, ".safetensors"}};
    on_ml_ranks(options->ml, words, {options->ml.output}, [&](comm::Communicator& world) { run(*options, world); });
  });
}

}  // namespace lockstep::apps
