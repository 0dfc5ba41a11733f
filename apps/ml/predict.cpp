// `lockstep predict`: what a fitted model says of other rows.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commands.h"
#include "data/source_options.h"
#include "lockstep/core/error.h"
#include "lockstep/ml/model_file.h"
#include "lockstep/ml/read_table.h"
#include "ml/ml_options.h"
#include "ml/write_values.h"
#include "progress.h"
#include "with_commas.h"

namespace lockstep::apps {
namespace {

struct Options {
  std::string model;
  SourceOptions from;
  std::string output;
  bool proba = false;
};

constexpr std::int64_t kRowsAtOnce = std::int64_t{1} << 16;

/// Of the data set's rows from number `begin` on. Fault::Data if a value is not finite then.
void prepare(const ml::Preparation& preparation, const at::Tensor& x, const std::vector<std::string>& names,
             const data::Dataset& dataset, std::int64_t begin) {
  x.scalar_type() == at::kFloat ? preparation.apply(x.mutable_data_ptr<float>(), x.size(0), x.size(1))
                                : preparation.apply(x.mutable_data_ptr<double>(), x.size(0), x.size(1));
  const at::Tensor bad = x.isfinite().logical_not().nonzero().contiguous();
  if (bad.size(0) == 0) return;
  const auto* first = bad.const_data_ptr<std::int64_t>();
  const bool missing = x[first[0]][first[1]].isnan().item<bool>();
  const std::int64_t row = begin + first[0];
  fail(Fault::Data, fmt::format("row {}, '{}' is {} ({})", row, names[static_cast<std::size_t>(first[1])],
                                missing ? "missing; a model that was fitted with --missing mean fills it in"
                                        : "infinite, and so no number that a model could take",
                                dataset.name(row)));
}

void run(const Options& options) {
  check_names_format(options.output);
  check_files({options.output}, {options.model, options.from.source});
  const auto model = ml::read_model(options.model);
  const auto predictor = ml::PredictorRegistry::instance().at("algorithm", model.algorithm)(model);
  const auto dataset = data::open(options.from.source, options.from.open);
  const auto& preparation = model.preparation;
  const ml::RowLayout layout(
      *dataset,
      {.columns = model.fields(), .onehot = preparation.onehot, .ordinal = preparation.ordinal, .of_model = true},
      preparation.categories);
  if (layout.names() != model.columns) {
    fail(Fault::Usage, fmt::format("{} has {} columns, and the model was fitted to {}", options.from.source,
                                   layout.columns(), model.columns.size()));
  }
  const auto names = options.proba ? predictor->proba_outputs() : predictor->outputs();
  if (options.proba && names.empty()) (void)predictor->predict_proba(at::Tensor());  // says that it knows none
  ValuesFile file(options.output, names, options.proba ? std::vector<std::string>() : predictor->value_names());
  std::optional<Progress> bar;  // beside printed lines it would be in the way
  if (!options.output.empty()) bar.emplace("predict", "rows", dataset->size());
  std::int64_t first = 0;
  do {
    const std::int64_t count = std::min(kRowsAtOnce, dataset->size() - first);
    const at::Tensor x = ml::read_rows(*dataset, first, count, layout, at::get_num_threads()).x;
    prepare(preparation, x, model.columns, *dataset, first);
    const at::Tensor values = options.proba ? predictor->predict_proba(x) : predictor->predict(x);
    if (values.numel() != count * static_cast<std::int64_t>(names.size()))
      fail(Fault::Data, fmt::format("{} names {} outputs and has others", options.model, names.size()));
    file.add(values);
    first += count;
    if (bar) bar->add(count);
  } while (first < dataset->size());
  file.finish();
  bar.reset();
  if (options.output.empty()) return;
  fmt::print("{}: {} of {}\n", options.output, fmt::join(names, ", "), counted(dataset->size(), "row"));
}

}  // namespace

void add_predict(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("predict", "What a fitted model says of other rows");
  command->footer(
      "Examples:\n"
      "  lockstep predict model.safetensors new.csv                         printed, a line for each row\n"
      "  lockstep predict model.safetensors new.csv -o labels.csv\n"
      "  lockstep predict model.safetensors new.csv --proba -o probabilities.csv     of a classifier");
  command->add_option("model", options->model, "File that 'lockstep kmeans' or its like wrote")->required();
  options->from.add_to(*command);
  command->add_option("-o,--output", options->output, "File for it: .csv, .npy, …; by default printed as CSV")
      ->check(file_name());
  command->add_flag("--proba", options->proba, "The probability of each class instead of the class");
  command->callback([options] { run(*options); });
}

}  // namespace lockstep::apps
