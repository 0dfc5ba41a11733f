#include "lockstep/ml/algorithms/linear_regression.h"

#include <memory>

#include <ATen/Parallel.h>

#include "lockstep/ml/check_option.h"
#include "lockstep/ml/gram.h"
#include "lockstep/ml/least_squares.h"

namespace lockstep::ml {
namespace {

constexpr const char kName[] = "linreg";

}  // namespace

LinearRegression::LinearRegression(LinearRegressionOptions options) : options_(options) {
  check_from_zero_on(options_.alpha, "alpha");
  if (options_.threads == 0) options_.threads = at::get_num_threads();
}

LinearRegression LinearRegression::from(const ModelFile& file) {
  LinearRegression result;
  result.model_ = linear_model_from(file);
  return result;
}

void LinearRegression::fit(const Table& table) {
  check_has_target(table);
  const NormalEquations equations(gram(table, options_.threads), table.columns(), options_.fit_intercept);
  model_ = equations.solve(options_.alpha);
  share(table, model_);
  undetermined_.clear();
  for (const std::int64_t column : equations.undetermined()) undetermined_.push_back(table.name_of(column));
  if (!undetermined_.empty() && options_.alpha == 0 && table.group().rank() == 0) warn_of_undetermined(undetermined_);
}

std::vector<LinearModel> LinearRegression::path(const Table& table, const std::vector<double>& alphas) const {
  check_has_target(table);
  const NormalEquations equations(gram(table, options_.threads), table.columns(), options_.fit_intercept);
  std::vector<LinearModel> models;
  for (const double alpha : alphas) {
    models.push_back(equations.solve(alpha));
    share(table, models.back());
  }
  return models;
}

double LinearRegression::score(const Table& table) const {
  check_has_target(table);
  return r2_score(gram(table, options_.threads), model_);
}

ModelFile LinearRegression::file(const Table& table) const {
  return linear_file(kName, model_, table, {{"alpha", options_.alpha}, {"fit_intercept", options_.fit_intercept}});
}

namespace {

const PredictorRegistry::Add registered{kName, "What linear or ridge regression says",
                                        [](const ModelFile& file) { return std::make_unique<LinearPredictor>(file); }};

}  // namespace
}  // namespace lockstep::ml
