#include "lockstep/ml/algorithms/logistic_regression.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/log.h"
#include "lockstep/core/text.h"
#include "lockstep/ml/check_option.h"
#include "lockstep/ml/check_rows.h"
#include "lockstep/ml/gram.h"
#include "lockstep/ml/least_squares.h"

namespace lockstep::ml {
namespace {

constexpr const char kName[] = "logreg";

/// By which rows are weighted beside their own weights; empty: by nothing.
std::vector<double> class_weights_of(const LogisticRegressionOptions& options, const std::vector<double>& totals) {
  if (!options.class_weights.empty() && options.class_weights.size() != totals.size()) {
    fail(Fault::Usage, fmt::format("{} weights for {} classes", options.class_weights.size(), totals.size()));
  }
  if (options.class_weight != "balanced") return options.class_weights;
  const double all = std::accumulate(totals.begin(), totals.end(), 0.0);
  std::vector<double> weights;
  for (const double total : totals) {
    weights.push_back(total > 0 ? all / (static_cast<double>(totals.size()) * total) : 1);
  }
  return weights;
}

}  // namespace

LogisticRegression::LogisticRegression(LogisticRegressionOptions options) : options_(std::move(options)) {
  if (!(options_.C > 0)) fail(Fault::Usage, fmt::format("C = {}: it is above 0", options_.C));
  check_from_zero_on(options_.tol, "tol");
  check_from_zero_on(static_cast<double>(options_.max_iter), "max_iter");
  if (!options_.class_weight.empty() && options_.class_weight != "balanced") {
    fail(Fault::Usage, fmt::format("class_weight = \"{}\": it is \"balanced\"", options_.class_weight));
  }
  for (const double weight : options_.class_weights) {
    if (!(weight >= 0)) fail(Fault::Usage, fmt::format("class_weights holds {}: weights are from 0 on", weight));
  }
  check_one_of(options_.solver, "solver", {"auto", "lbfgs", "newton-cholesky"});
  if (options_.threads == 0) options_.threads = at::get_num_threads();
}

LogisticRegression LogisticRegression::from(const ModelFile& file) {
  LogisticRegressionOptions options;
  options.C = file.parameter("C", std::numeric_limits<double>::infinity());  // JSON has none
  options.fit_intercept = file.parameter("fit_intercept", options.fit_intercept);
  options.tol = file.parameter("tol", options.tol);
  options.max_iter = file.parameter("max_iter", options.max_iter);
  LogisticRegression result(options);
  result.n_iter_ = file.parameter("n_iter", result.n_iter_);
  result.classes_ = Classes::from(file);
  result.model_ = linear_model_from(file);
  if (result.model_.coef.size(0) != (result.classes_.count() == 2 ? 1 : result.classes_.count())) {
    fail(Fault::Data, "the model's coef and intercept are no coefficients of its classes");
  }
  return result;
}

void LogisticRegression::fit(const Table& table, const std::function<void(const LogisticPass&)>& see) {
  // If the table is refused, classes and coefficients of the last one still go together.
  LogisticRegression next(options_);
  next.learn(table, see);
  *this = std::move(next);
}

void LogisticRegression::learn(const Table& table, const std::function<void(const LogisticPass&)>& see) {
  classes_ = Classes::of(table, options_.threads);
  if (classes_.count() < 2) {
    fail(Fault::Data, fmt::format("all rows are of class {}: there is nothing to tell apart", classes_.name_of(0)));
  }
  LogisticTask task{.outputs = classes_.count() == 2 ? 1 : classes_.count(),
                    .fit_intercept = options_.fit_intercept,
                    .threads = options_.threads};
  auto [numbers, totals] = classes_.rows(table, options_.threads);
  task.classes = std::move(numbers);
  task.class_weights = class_weights_of(options_, totals);
  for (std::size_t i = 0; i < task.class_weights.size(); ++i) totals[i] *= task.class_weights[i];
  task.weight = std::accumulate(totals.begin(), totals.end(), 0.0);
  check_weight(task.weight);
  const bool penalised = std::isfinite(options_.C);
  if (penalised) task.l2 = 1 / (options_.C * task.weight);

  const LogisticFit found = fit_logistic(
      table, task, totals, {.solver = options_.solver, .tol = options_.tol, .max_iter = options_.max_iter, .see = see});
  model_ = found.model;
  n_iter_ = found.iterations;
  converged_ = found.converged;
  objective_ = found.loss * task.weight * (penalised ? options_.C : 1);
  if (!penalised) take_least_norm(table);
  if (table.group().rank() != 0) return;
  if (!converged_) {
    log().warn("logistic regression did not converge in {} iterations; scale the columns or raise max_iter",
               options_.max_iter);
  }
}

void LogisticRegression::take_least_norm(const Table& table) {
  const NormalEquations equations(gram(table, options_.threads), table.columns(), options_.fit_intercept);
  if (equations.undetermined().empty()) return;
  model_ = equations.least_norm(model_);
  share(table, model_);
  for (const std::int64_t column : equations.undetermined()) undetermined_.push_back(table.name_of(column));
  if (table.group().rank() == 0) warn_of_undetermined(undetermined_);
}

at::Tensor LogisticRegression::decision_function(const at::Tensor& x) const {
  const at::Tensor margins = model_.predict(x);
  return margins.size(1) == 1 ? margins.squeeze(1) : margins;
}

at::Tensor LogisticRegression::predict(const at::Tensor& x) const {
  const at::Tensor margins = decision_function(x);
  return classes_.values_of(margins.dim() == 1 ? margins.gt(0) : margins.argmax(1));
}

at::Tensor LogisticRegression::predict_proba(const at::Tensor& x) const {
  const at::Tensor margins = decision_function(x);
  return margins.dim() == 1 ? at::stack({(-margins).sigmoid(), margins.sigmoid()}, 1) : margins.softmax(1);
}

at::Tensor LogisticRegression::predict_log_proba(const at::Tensor& x) const {
  const at::Tensor margins = decision_function(x);
  return margins.dim() == 1 ? at::stack({at::log_sigmoid(-margins), at::log_sigmoid(margins)}, 1)
                            : margins.log_softmax(1);
}

double LogisticRegression::score(const Table& table) const {
  check_columns(table, fitted_columns(model_.coef));
  return accuracy(table, classes_, options_.threads,
                  [&](const Block& block, std::int32_t* numbers) { tell_classes(table, model_, block, numbers); });
}

ModelFile LogisticRegression::file(const Table& table) const {
  ModelFile file = file_for(table, kName,
                            {{"fit_intercept", options_.fit_intercept},
                             {"tol", options_.tol},
                             {"max_iter", options_.max_iter},
                             {"n_iter", n_iter_}},
                            {{"coef", model_.coef}, {"intercept", model_.intercept}});
  if (std::isfinite(options_.C)) file.parameters["C"] = options_.C;  // JSON has no infinity
  classes_.add_to(file);
  return file;
}

namespace {

const PredictorRegistry::Add registered{kName, "The class that logistic regression says", [](const ModelFile& model) {
                                          return std::make_unique<ClassPredictor<LogisticRegression>>(model);
                                        }};

}  // namespace
}  // namespace lockstep::ml
