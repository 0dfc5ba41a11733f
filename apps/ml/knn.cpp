// `lockstep knn`: classes or values of rows by their nearest neighbours.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "json_text.h"
#include "lockstep/core/error.h"
#include "lockstep/core/stopwatch.h"
#include "lockstep/core/text.h"
#include "lockstep/ml/algorithms/neighbors.h"
#include "lockstep/ml/own_rows.h"
#include "ml/cv_options.h"
#include "ml/ml_options.h"
#include "ml/write_values.h"
#include "whole_number.h"
#include "with_commas.h"

namespace lockstep::apps {
namespace {

constexpr const char kExamples[] = R"(Examples:
  lockstep knn train.csv new.csv --target label -n 4 -o said.csv     the class of most of 5 neighbours
  lockstep knn train.csv new.csv --target price --regression -k 10 --weights distance -o said.csv
  lockstep knn train.csv --target label --model model.safetensors    the rows themselves, for 'lockstep predict'
  lockstep knn train.csv --target label -k 1,3,5,9 --cv 5            the best number of neighbours by five folds
Where the second data set has the target, too, it is told how good the answers are.)";

struct Options {
  MlOptions ml;
  ml::NeighborsOptions neighbors;
  std::vector<std::int64_t> counts{neighbors.n_neighbors};
  std::string query, model;
  bool regression = false;
  CvOptions cv;

  const char* metric() const { return regression ? "R²" : "accuracy"; }
};

struct Said {
  at::Tensor values;            // of the queries, on rank 0
  std::optional<double> score;  // if all of them have the target
};

/// Rows of the second data set, in the type of the first and with its columns.
std::unique_ptr<ml::Table> read_queries(const Options& options, const ml::Table& table) {
  const auto dataset = data::open(options.query, options.ml.from.open);
  const auto& schema = dataset->schema();
  const ml::Preparation& preparation = *table.preparation();
  ml::ColumnChoice choice{.columns = preparation.fields,
                          .type = table.type() == at::kFloat ? "float32" : "float64",
                          .onehot = preparation.onehot,
                          .ordinal = preparation.ordinal,
                          .of_model = true};
  const auto& targets = options.ml.choice.targets;
  const bool known = std::all_of(targets.begin(), targets.end(), [&](const std::string& target) {
    return std::any_of(schema.begin(), schema.end(), [&](const data::Field& field) {
      const bool text = field.encoding == data::Encoding::Text;
      return field.name == target && text == preparation.categories.contains(target);
    });
  });
  if (known) choice.targets = targets;
  auto queries = ml::read_table(table.group(), options.query, options.ml.from.open,
                                {.choice = choice,
                                 .like = &preparation,
                                 .threads = at::get_num_threads(),
                                 .memory_bytes = memory_bytes(options.ml),
                                 .observer = table.observer()});
  if (queries->names() != table.names()) {
    fail(Fault::Usage, fmt::format("{} has {} columns, and {} has {}", options.query, queries->columns(),
                                   options.ml.from.source, table.columns()));
  }
  return queries;
}

/// Whether all queries have the target, and its values mean the same. A collective.
bool can_score(const ml::Table& table, const ml::Table& queries) {
  if (queries.targets() == 0 || queries.value_names() != table.value_names()) return false;
  at::Tensor unknown = ml::own_targets(queries).isfinite().logical_not().sum();
  table.group().all_reduce_(unknown, comm::ReduceOp::Sum, {.name = "queries without a target"}).wait();
  return unknown.item<std::int64_t>() == 0;
}

/// Of a classifier or a regressor that is fitted. A collective.
template <class Estimator>
Said ask(const Estimator& estimator, const ml::Table& table, const ml::Table& queries) {
  const at::Tensor own = ml::said_of_rows(queries, [&](const at::Tensor& x) { return estimator.predict(x); });
  Said said{.values = ml::gather_rows(queries, own), .score = {}};
  if (can_score(table, queries)) said.score = estimator.score_of(queries, own);
  return said;
}

/// How each number of neighbours does on folds.
template <class Estimator>
CvChoice choose(const Options& options, const ml::Table& table) {
  ml::check_finite(table);  // rows of a fold have other numbers
  const auto folds = options.regression ? options.cv.of_rows(table) : options.cv.of_classes(table);
  if (options.regression) ml::check_two_rows_each(table, folds);
  const auto score = [&](double count, const ml::Table& train, const ml::Table& test) {
    auto neighbors = options.neighbors;
    neighbors.n_neighbors = static_cast<std::int64_t>(count);
    Estimator estimator(neighbors);
    estimator.fit(ml::rows_that_weigh(train));
    return estimator.score(*ml::rows_that_weigh(test));
  };
  return choose_by_fits(table, folds, "n_neighbors", options.metric(), {options.counts.begin(), options.counts.end()},
                        score);
}

void report(const Options& options, const ml::Table& table, const ml::Table* queries, const Said& said,
            const std::optional<CvChoice>& chosen, double seconds) {
  if (options.ml.json) {
    nlohmann::json json = {{"algorithm", "knn"},
                           {"rows", table.rows()},
                           {"columns", table.columns()},
                           {"ranks", table.group().size()},
                           {"neighbors", options.neighbors.n_neighbors},
                           {"seconds", seconds},
                           {"output", options.ml.output},
                           {"model", options.model}};
    if (chosen) json["cv"] = chosen->json();
    if (queries != nullptr) json["queries"] = queries->rows();
    if (said.score) json[options.regression ? "r2" : "accuracy"] = *said.score;
    fmt::print("{}", json_text(json));
    return;
  }
  if (chosen) chosen->print();
  if (queries != nullptr) {
    fmt::print("{} among {}, {}{} in {}\n",
               queries->rows() == 1 ? "1 query" : with_commas(queries->rows()) + " queries", size_text(table),
               counted(options.neighbors.n_neighbors, "neighbour"),
               said.score ? fmt::format(": {} {:.6f}", options.metric(), *said.score) : "", format_seconds(seconds));
  }
  for (const auto& file : {options.ml.output, options.model}) {
    if (!file.empty()) fmt::print("{}\n", file);
  }
}

template <class Estimator>
void run(Options options, comm::Communicator& world) {
  const std::shared_ptr<const ml::Table> table = read_source(options.ml, world);
  const auto queries = options.query.empty() ? nullptr : read_queries(options, *table);
  if (queries) ml::check_finite_columns(*queries);
  const Stopwatch watch;
  std::optional<CvChoice> chosen;
  if (options.cv.folds > 0) chosen = choose<Estimator>(options, *table);
  options.neighbors.n_neighbors = chosen ? static_cast<std::int64_t>(chosen->best().front()) : options.counts.front();
  Estimator estimator(options.neighbors);
  estimator.fit(table);
  const Said said = queries ? ask(estimator, *table, *queries) : Said();
  const double seconds = watch.seconds();
  const ml::ModelFile model = options.model.empty() ? ml::ModelFile() : estimator.file();
  if (world.rank() != 0) return;
  if (!options.ml.output.empty()) {
    write_values(options.ml.output, table->target_names(),
                 options.regression ? std::vector<std::string>() : table->value_names(), said.values);
  }
  write_output(options.model, model);
  report(options, *table, queries.get(), said, chosen, seconds);
}

void check(const Options& options) {
  (void)ml::NearestNeighbors(options.neighbors);
  options.cv.check(options.counts.size(), "-k");
  check_names_format(options.ml.output);
  if (options.query.empty() != options.ml.output.empty()) {
    fail(Fault::Usage, options.query.empty() ? "-o is for what is said of a second data set; name one, or --model alone"
                                             : "name a file for what is said of the rows by -o said.csv");
  }
  if (options.query.empty() && options.model.empty() && options.cv.folds == 0) {
    fail(Fault::Usage, "name a second data set, whose rows are asked for, a file for the rows by --model, or --cv 5");
  }
}

}  // namespace

void add_knn(CLI::App& app, const std::vector<std::string>& words) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("knn", "Classes or values of rows by their nearest neighbours");
  command->footer(kExamples);
  options->ml.add_to(*command);
  // Rows have no weights here; scikit-learn's name is for those of votes.
  command->remove_option(command->get_option("--weights"));
  command->add_option("query", options->query, "Data set of the rows that are asked for");
  command->add_option("--target", options->ml.choice.targets, "Field to be said; of --regression a,b are several")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->required();
  command->add_option("-k,--n-neighbors", options->counts, "Number of neighbours; a,b with --cv")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(whole_from(1))
      ->capture_default_str();
  command->add_option("--weights", options->neighbors.weights, "Of votes: uniform, or distance: the nearer the more")
      ->check(CLI::IsMember({"uniform", "distance"}))
      ->capture_default_str();
  command->add_flag("--regression", options->regression, "The mean of the neighbours' targets instead of a class");
  options->cv.add_to(*command);
  command->add_option("--model", options->model, "File for the rows (.safetensors), which 'lockstep predict' reads");
  command->add_option("-o,--output", options->ml.output, "File for what is said: .csv, .npy, …")->check(file_name());
  command->callback([options, words] {
    check(*options);
    options->ml.endings = {{options->model, ".safetensors"}};
    if (!options->query.empty()) options->ml.also_read = {options->query};
    on_ml_ranks(options->ml, words, {options->ml.output, options->model}, [&](comm::Communicator& world) {
      options->regression ? run<ml::KNeighborsRegressor>(*options, world)
                          : run<ml::KNeighborsClassifier>(*options, world);
    });
  });
}

}  // namespace lockstep::apps
