#include "lockstep/ml/algorithms/neighbors.h"

#include <utility>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/ml/check_option.h"
#include "lockstep/ml/check_rows.h"
#include "lockstep/ml/linear_model.h"
#include "lockstep/ml/own_rows.h"
#include "lockstep/ml/score.h"

namespace lockstep::ml {
namespace {

constexpr const char kClassifier[] = "knn";
constexpr const char kRegressor[] = "knn-regression";

}  // namespace

NearestNeighbors::NearestNeighbors(NeighborsOptions options) : options_(std::move(options)) {
  check_from_one_on(options_.n_neighbors, "n_neighbors");
  if (options_.weights != "uniform" && options_.weights != "distance") {
    fail(Fault::Usage, fmt::format("weights = \"{}\": it is \"uniform\" or \"distance\"", options_.weights));
  }
  if (options_.threads == 0) options_.threads = at::get_num_threads();
}

void NearestNeighbors::fit(std::shared_ptr<const Table> table) {
  if (table->rows() < options_.n_neighbors) {
    fail(Fault::Usage, fmt::format("n_neighbors = {} of {} rows; use fewer", options_.n_neighbors, table->rows()));
  }
  rows_ = rows_of_table(std::move(table));
}

const FittedRows& NearestNeighbors::fitted_rows() const {
  check_fitted(rows_ != nullptr);
  return *rows_;
}

Neighbors NearestNeighbors::kneighbors(const at::Tensor& x) const {
  return fitted_rows().nearest(x, options_.n_neighbors, options_.threads);
}

void NearestNeighbors::read(const ModelFile& file) {
  const at::Tensor &x = file.by_columns("x"), &targets = file["targets"];
  const bool real = x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble;
  if (x.dim() != 2 || !real || targets.dim() != 2 || targets.scalar_type() != at::kDouble ||
      targets.size(0) != x.size(0) || x.size(0) < options_.n_neighbors) {
    fail(Fault::Data, "the model's x and targets are no rows of neighbours");
  }
  rows_ = rows_in_memory({.x = x,
                          .targets = targets,
                          .names = file.columns,
                          .preparation = std::make_shared<const Preparation>(file.preparation)});
}

ModelFile NearestNeighbors::file_of(const char* algorithm) const {
  const TableRows rows = fitted_rows().all();
  return {.algorithm = algorithm,
          .parameters = {{"n_neighbors", options_.n_neighbors}, {"weights", options_.weights}},
          .columns = rows.names,
          .preparation = rows.preparation == nullptr ? Preparation() : *rows.preparation,
          .tensors = {{"x", rows.x}, {"targets", rows.targets}}};
}

at::Tensor NearestNeighbors::votes_of(const Neighbors& neighbors) const {
  if (options_.weights == "uniform") return at::ones_like(neighbors.distances);
  // Rows that lie on the query decide alone.
  const at::Tensor on_it = neighbors.distances.eq(0);
  return at::where(on_it.any(1, /*keepdim=*/true), on_it.to(at::kDouble), 1 / neighbors.distances);
}

namespace {

/// The options that a file holds.
NeighborsOptions options_of(const ModelFile& file) {
  NeighborsOptions options;
  options.n_neighbors = file.parameter("n_neighbors", options.n_neighbors);
  options.weights = file.parameter("weights", options.weights);
  return options;
}

}  // namespace

KNeighborsClassifier KNeighborsClassifier::from(const ModelFile& file) {
  KNeighborsClassifier result(options_of(file));
  result.read(file);
  result.classes_ = Classes::from(file);
  const at::Tensor& targets = file["targets"];
  const ClassNumbers number_of(result.classes_.values());
  for (std::int64_t i = 0; i < targets.numel(); ++i) {
    const double value = targets.const_data_ptr<double>()[i];
    if (number_of(value) < 0)
      fail(Fault::Data, fmt::format("the model's row {} is of class {}, which it has not", i, value));
  }
  return result;
}

void KNeighborsClassifier::fit(std::shared_ptr<const Table> table) {
  // Kept only with their rows, whose targets are looked up among them.
  Classes classes = Classes::of(*table, options_.threads);
  NearestNeighbors::fit(std::move(table));
  classes_ = std::move(classes);
}

at::Tensor KNeighborsClassifier::votes_for(const at::Tensor& x) const {
  const Neighbors neighbors = kneighbors(x);
  const at::Tensor votes = votes_of(neighbors);
  const std::int64_t queries = votes.size(0), k = votes.size(1);
  const ClassNumbers number_of(classes_.values());
  at::Tensor sums = at::zeros({queries, classes_.count()}, at::kDouble);
  for (std::int64_t i = 0; i < queries * k; ++i) {
    const std::int32_t number = number_of(neighbors.targets.const_data_ptr<double>()[i]);
    sums.mutable_data_ptr<double>()[i / k * classes_.count() + number] += votes.const_data_ptr<double>()[i];
  }
  return sums;
}

at::Tensor KNeighborsClassifier::predict_proba(const at::Tensor& x) const {
  const at::Tensor votes = votes_for(x);
  return votes / votes.sum(1, /*keepdim=*/true);
}

at::Tensor KNeighborsClassifier::predict(const at::Tensor& x) const {
  return classes_.values_of(votes_for(x).argmax(1));
}

double KNeighborsClassifier::score(const Table& table) const {
  return score_of(table, said_of_rows(table, [this](const at::Tensor& x) { return predict(x); }));
}

double KNeighborsClassifier::score_of(const Table& table, const at::Tensor& said) const {
  const ClassNumbers number_of(classes_.values());
  const at::Tensor values = said.to(at::kDouble).contiguous();
  std::vector<std::int32_t> numbers;
  for (std::int64_t i = 0; i < values.numel(); ++i) numbers.push_back(number_of(values.const_data_ptr<double>()[i]));
  const std::int64_t first = table.plan().begin(table.own_begin());
  return accuracy(table, classes_, options_.threads, [&](const Block& block, std::int32_t* of_block) {
    std::copy_n(numbers.begin() + (block.first - first), block.rows, of_block);
  });
}

ModelFile KNeighborsClassifier::file() const {
  ModelFile file = file_of(kClassifier);
  classes_.add_to(file);
  return file;
}

KNeighborsRegressor KNeighborsRegressor::from(const ModelFile& file) {
  KNeighborsRegressor result(options_of(file));
  result.read(file);
  result.target_names_ = file.parameter("target_names", result.target_names_);
  return result;
}

void KNeighborsRegressor::fit(std::shared_ptr<const Table> table) {
  check_has_target(*table);
  std::vector<std::string> target_names = table->target_names();
  NearestNeighbors::fit(std::move(table));
  target_names_ = std::move(target_names);
}

at::Tensor KNeighborsRegressor::predict(const at::Tensor& x) const {
  const Neighbors neighbors = kneighbors(x);
  const at::Tensor votes = votes_of(neighbors);
  const std::int64_t queries = votes.size(0), k = votes.size(1), targets = neighbors.targets.size(2);
  at::Tensor result = at::zeros({queries, targets}, at::kDouble);
  const double *vote = votes.const_data_ptr<double>(), *target = neighbors.targets.const_data_ptr<double>();
  for (std::int64_t query = 0; query < queries; ++query) {
    double* mean = result.mutable_data_ptr<double>() + query * targets;
    double all = 0;
    for (std::int64_t i = 0; i < k; ++i, ++vote) {
      all += *vote;
      for (std::int64_t t = 0; t < targets; ++t) mean[t] += *vote * *target++;
    }
    for (std::int64_t t = 0; t < targets; ++t) mean[t] /= all;
  }
  return result;
}

double KNeighborsRegressor::score(const Table& table) const {
  return score_of(table, said_of_rows(table, [this](const at::Tensor& x) { return predict(x); }));
}

double KNeighborsRegressor::score_of(const Table& table, const at::Tensor& said) const {
  return r2_of(table, said, options_.threads);
}

ModelFile KNeighborsRegressor::file() const {
  ModelFile file = file_of(kRegressor);
  file.parameters["target_names"] = target_names_;
  return file;
}

namespace {

class Values final : public Predictor {
 public:
  explicit Values(const ModelFile& model) : regressor_(KNeighborsRegressor::from(model)) {}
  at::Tensor predict(const at::Tensor& x) const override { return regressor_.predict(x); }
  std::vector<std::string> outputs() const override { return regressor_.target_names(); }

 private:
  KNeighborsRegressor regressor_;
};

const PredictorRegistry::Add classifier{
    kClassifier, "The class of most of the nearest rows",
    [](const ModelFile& model) { return std::make_unique<ClassPredictor<KNeighborsClassifier>>(model); }};
const PredictorRegistry::Add regressor{kRegressor, "The mean of the nearest rows' targets",
                                       [](const ModelFile& model) { return std::make_unique<Values>(model); }};

}  // namespace
}  // namespace lockstep::ml
