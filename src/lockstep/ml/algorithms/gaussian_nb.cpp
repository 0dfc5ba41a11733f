#include "lockstep/ml/algorithms/gaussian_nb.h"

#include <memory>
#include <numbers>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/ml/check_option.h"

namespace lockstep::ml {
namespace {

constexpr const char kName[] = "gaussian_nb";

}  // namespace

GaussianNB::GaussianNB(GaussianNBOptions options) : NaiveBayes(options.threads), options_(std::move(options)) {
  check_from_zero_on(options_.var_smoothing, "var_smoothing");
  check_priors(options_.priors, "priors");
}

void GaussianNB::check_variances(const Table& table, const Seen& seen, const at::Tensor& var) const {
  const at::Tensor good = var.gt(0).logical_and(var.isfinite()).logical_or(seen.moments.weight.eq(0).unsqueeze(1));
  const at::Tensor bad = good.logical_not().nonzero().contiguous();
  if (bad.size(0) == 0) return;
  const auto* first = bad.const_data_ptr<std::int64_t>();
  fail(Fault::Data,
       var[first[0]][first[1]].isfinite().item<bool>()
           ? fmt::format("{} is constant in class {}, and {} by var_smoothing; leave it out, or raise var_smoothing",
                         table.name_of(first[1]), seen.classes.name_of(first[0]),
                         options_.var_smoothing > 0 ? "so are all columns: nothing is added" : "nothing is added")
           : fmt::format("squares of {} are too large; scale the columns", table.name_of(first[1])));
}

void GaussianNB::update(const Table& table, const std::vector<double>& classes, bool anew) {
  Seen seen = seen_with(table, classes, anew);
  const at::Tensor priors = log_priors(seen, options_.priors).exp();
  const double epsilon = options_.var_smoothing * (seen.moments.rows_squares / seen.moments.rows).max().item<double>();
  const at::Tensor weight = seen.moments.weight.unsqueeze(1);
  const at::Tensor var = at::where(weight.gt(0), seen.moments.squares / weight, at::zeros({}, at::kDouble)) + epsilon;
  // Of a part of the rows a column may be constant, and no longer of all that come.
  if (anew) check_variances(table, seen, var);
  become(std::move(seen));
  class_prior_ = priors;
  epsilon_ = epsilon;
  var_ = var;
  prepare();
}

void GaussianNB::prepare() {
  precision_ = (0.5 / var_).contiguous();
  constant_ = (class_prior_.log() - 0.5 * (2 * std::numbers::pi * var_).log().sum(1)).contiguous();
}

void GaussianNB::joint(const double* row, double* result) const {
  const double* mean = moments_.mean.const_data_ptr<double>();
  const double* precision = precision_.const_data_ptr<double>();
  for (std::int64_t number = 0; number < classes_.count(); ++number) {
    double sum = 0;
    for (std::int64_t column = 0; column < columns(); ++column, ++mean, ++precision) {
      sum += (row[column] - *mean) * (row[column] - *mean) * *precision;
    }
    result[number] = constant_.const_data_ptr<double>()[number] - sum;
  }
}

GaussianNB GaussianNB::from(const ModelFile& file) {
  GaussianNBOptions options;
  options.var_smoothing = file.parameter("var_smoothing", options.var_smoothing);
  GaussianNB result(options);
  result.epsilon_ = file.parameter("epsilon", result.epsilon_);
  result.classes_ = Classes::from(file);
  result.moments_.mean = file.by_columns("theta");
  result.moments_.weight = file["class_count"];
  result.var_ = file.by_columns("var");
  result.class_prior_ = file["class_prior"];
  check_tensors(result.classes_, {result.moments_.mean, result.var_}, {result.moments_.weight, result.class_prior_});
  result.prepare();
  return result;
}

ModelFile GaussianNB::file(const Table& table) const {
  ModelFile file =
      file_for(table, kName, {{"var_smoothing", options_.var_smoothing}, {"epsilon", epsilon_}},
               {{"theta", theta()}, {"var", var_}, {"class_prior", class_prior_}, {"class_count", class_count()}});
  classes_.add_to(file);
  return file;
}

namespace {

const PredictorRegistry::Add registered{
    kName, "The class that naive Bayes of normal columns says",
    [](const ModelFile& model) { return std::make_unique<ClassPredictor<GaussianNB>>(model); }};

}  // namespace
}  // namespace lockstep::ml
