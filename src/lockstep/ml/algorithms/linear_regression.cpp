#include "lockstep/ml/algorithms/linear_regression.h"

#include <memory>
#include <utility>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>

#include "lockstep/core/error.h"
#include "lockstep/ml/check_option.h"
#include "lockstep/ml/gram.h"

namespace lockstep::ml {
namespace {

constexpr const char kName[] = "linreg";

/// Hosts may compute the last bits in different ways: all take those of rank 0.
void share(const Table& table, LinearModel& model) {
  table.group().broadcast_({model.coef, model.intercept}, 0, {.name = "coefficients"}).wait();
}

void check_targets(const Table& table) {
  if (table.targets() == 0) fail(Fault::Usage, "regression needs a target");
}

}  // namespace

LinearRegression::LinearRegression(LinearRegressionOptions options) : options_(options) {
  check_from_zero_on(options_.alpha, "alpha");
  if (options_.threads == 0) options_.threads = at::get_num_threads();
}

LinearRegression LinearRegression::from(const ModelFile& file) {
  LinearRegression result;
  const auto& [coef, intercept] = result.model_ = {file["coef"], file["intercept"]};
  if (coef.dim() != 2 || coef.scalar_type() != at::kDouble || intercept.scalar_type() != at::kDouble ||
      intercept.sizes() != at::IntArrayRef({coef.size(0)})) {
    fail(Fault::Data, "the model's coef and intercept are no coefficients of a regression");
  }
  return result;
}

void LinearRegression::fit(const Table& table) {
  check_targets(table);
  const NormalEquations equations(gram(table, options_.threads), table.columns(), options_.fit_intercept);
  model_ = equations.solve(options_.alpha);
  share(table, model_);
  undetermined_.clear();
  for (const std::int64_t column : equations.undetermined()) undetermined_.push_back(table.name_of(column));
  if (!undetermined_.empty() && options_.alpha == 0 && table.group().rank() == 0) warn_of_undetermined(undetermined_);
}

std::vector<LinearModel> LinearRegression::path(const Table& table, const std::vector<double>& alphas) const {
  check_targets(table);
  const NormalEquations equations(gram(table, options_.threads), table.columns(), options_.fit_intercept);
  std::vector<LinearModel> models;
  for (const double alpha : alphas) {
    models.push_back(equations.solve(alpha));
    share(table, models.back());
  }
  return models;
}

double LinearRegression::score(const Table& table) const {
  // From products alone: |y - x·coef - b|² needs no second look at the rows.
  check_targets(table);
  const Gram all = gram(table, options_.threads);
  const std::int64_t columns = table.columns();
  const at::Tensor xx = all.centred.slice(0, 0, columns).slice(1, 0, columns);
  const at::Tensor xy = all.centred.slice(0, 0, columns).slice(1, columns);
  const at::Tensor total = all.centred.slice(0, columns).slice(1, columns).diagonal();
  const at::Tensor off = all.mean.slice(0, columns) - model_.predict(all.mean.slice(0, 0, columns).unsqueeze(0))[0];
  const at::Tensor explained = 2 * (model_.coef.t() * xy).sum(0) - (model_.coef.matmul(xx) * model_.coef).sum(1);
  const at::Tensor left = total - explained + all.weight * off.square();
  return (1 - left / total).mean().item<double>();
}

ModelFile LinearRegression::file(const Table& table) const {
  return {.algorithm = kName,
          .parameters = {{"alpha", options_.alpha},
                         {"fit_intercept", options_.fit_intercept},
                         {"targets", table.target_names()}},
          .columns = table.names(),
          .tensors = {{"coef", model_.coef}, {"intercept", model_.intercept}}};
}

namespace {

class Values final : public Predictor {
 public:
  explicit Values(const ModelFile& model)
      : regression_(LinearRegression::from(model)), targets_(model.parameters.value("targets", targets_)) {}
  at::Tensor predict(const at::Tensor& x) const override { return regression_.predict(x); }
  std::vector<std::string> outputs() const override { return targets_; }

 private:
  LinearRegression regression_;
  std::vector<std::string> targets_;
};

const PredictorRegistry::Add registered{kName, "What linear or ridge regression says",
                                        [](const ModelFile& model) { return std::make_unique<Values>(model); }};

}  // namespace
}  // namespace lockstep::ml
