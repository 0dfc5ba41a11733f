#include "lockstep/ml/algorithms/elastic_net.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/log.h"
#include "lockstep/ml/check_option.h"
#include "lockstep/ml/coordinate_descent.h"
#include "lockstep/ml/least_squares.h"

namespace lockstep::ml {
namespace {

constexpr const char kName[] = "elasticnet";

/// Products as coordinate descent takes them, without an intercept not centred.
struct Products {
  at::Tensor columns;       // [columns, columns]
  at::Tensor with_targets;  // [targets, columns]
  at::Tensor targets;       // [targets]

  Products(const Gram& gram, std::int64_t count, bool fit_intercept) {
    const at::Tensor all = fit_intercept ? gram.centred : gram.centred + gram.weight * at::outer(gram.mean, gram.mean);
    columns = all.slice(0, 0, count).slice(1, 0, count).clone(at::MemoryFormat::Contiguous);
    with_targets = all.slice(0, count).slice(1, 0, count).contiguous();
    targets = all.diagonal().slice(0, count).contiguous();
    // A constant column says nothing beside an intercept.
    if (fit_intercept) columns.diagonal().masked_fill_(is_constant(gram).slice(0, 0, count), 0);
  }
};

LinearModel model_of(const Gram& gram, const at::Tensor& coef, bool fit_intercept) {
  const at::Tensor x = gram.mean.slice(0, 0, coef.size(1)), y = gram.mean.slice(0, coef.size(1));
  at::Tensor intercept = at::zeros_like(y);
  // In one order on every host.
  for (std::int64_t target = 0; fit_intercept && target < y.size(0); ++target) {
    double sum = y[target].item<double>();
    for (std::int64_t column = 0; column < x.size(0); ++column) {
      sum -= coef.const_data_ptr<double>()[target * x.size(0) + column] * x[column].item<double>();
    }
    intercept.mutable_data_ptr<double>()[target] = sum;
  }
  return {coef.clone(), intercept};
}

}  // namespace

std::vector<ElasticNetFit> elastic_net_path(const Gram& gram, std::int64_t columns, const ElasticNetOptions& options,
                                            const std::vector<double>& alphas) {
  const Products products(gram, columns, options.fit_intercept);
  const std::int64_t targets = products.targets.numel();
  std::vector<std::size_t> order(alphas.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t one, std::size_t other) { return alphas[one] > alphas[other]; });
  std::vector<ElasticNetFit> fits(alphas.size());
  std::vector<std::vector<double>> coef(static_cast<std::size_t>(targets),
                                        std::vector<double>(static_cast<std::size_t>(columns)));
  at::Tensor coefficients = at::empty({targets, columns}, at::kDouble);
  for (const std::size_t place : order) {
    ElasticNetFit& fit = fits[place];
    for (std::int64_t target = 0; target < targets; ++target) {
      std::vector<double>& own = coef[static_cast<std::size_t>(target)];
      const Descent descent =
          descend_(own,
                   {.columns = columns,
                    .products = products.columns.const_data_ptr<double>(),
                    .with_target = products.with_targets.const_data_ptr<double>() + target * columns,
                    .target = products.targets.const_data_ptr<double>()[target],
                    .l1 = alphas[place] * options.l1_ratio * gram.weight,
                    .l2 = alphas[place] * (1 - options.l1_ratio) * gram.weight,
                    .positive = options.positive},
                   {.tol = options.tol, .max_iter = options.max_iter});
      fit.n_iter.push_back(descent.iterations);
      fit.dual_gap.push_back(descent.gap / gram.weight);
      fit.converged = fit.converged && descent.converged;
      std::copy(own.begin(), own.end(), coefficients.mutable_data_ptr<double>() + target * columns);
    }
    fit.model = model_of(gram, coefficients, options.fit_intercept);
  }
  return fits;
}

std::vector<double> alpha_grid(const Gram& gram, std::int64_t columns, const ElasticNetOptions& options,
                               std::int64_t n_alphas, double eps) {
  if (options.l1_ratio == 0) fail(Fault::Usage, "with l1_ratio = 0 no alpha makes all coefficients 0: give alphas");
  const Products products(gram, columns, options.fit_intercept);
  const at::Tensor pull = options.positive ? products.with_targets : products.with_targets.abs();
  // Where no column may pull, any penalty leaves nothing.
  const double largest =
      std::max(pull.max().item<double>(), std::numeric_limits<double>::min()) / (gram.weight * options.l1_ratio);
  std::vector<double> alphas;
  for (std::int64_t i = 0; i < n_alphas; ++i) {
    const double share = n_alphas == 1 ? 0 : static_cast<double>(i) / static_cast<double>(n_alphas - 1);
    alphas.push_back(largest * std::pow(eps, share));
  }
  return alphas;
}

ElasticNet::ElasticNet(ElasticNetOptions options) : options_(options) {
  check_from_zero_on(options_.alpha, "alpha");
  check_from_zero_on(options_.tol, "tol");
  check_from_one_on(options_.max_iter, "max_iter");
  if (!(options_.l1_ratio >= 0 && options_.l1_ratio <= 1)) {
    fail(Fault::Usage, fmt::format("l1_ratio = {}: it is from 0 to 1", options_.l1_ratio));
  }
  if (options_.threads == 0) options_.threads = at::get_num_threads();
}

ElasticNet ElasticNet::from(const ModelFile& file) {
  ElasticNetOptions options;
  options.alpha = file.parameter("alpha", options.alpha);
  options.l1_ratio = file.parameter("l1_ratio", options.l1_ratio);
  options.fit_intercept = file.parameter("fit_intercept", options.fit_intercept);
  options.max_iter = file.parameter("max_iter", options.max_iter);
  options.tol = file.parameter("tol", options.tol);
  options.positive = file.parameter("positive", options.positive);
  ElasticNet result(options);
  result.fit_.model = linear_model_from(file);
  result.fit_.n_iter = file.parameter("n_iter", result.fit_.n_iter);
  return result;
}

void ElasticNet::fit(const Table& table) {
  check_has_target(table);
  const Gram products = gram(table, options_.threads);
  fit_ = elastic_net_path(products, table.columns(), options_, {options_.alpha}).front();
  share(table, fit_.model);
  fitted_score_ = r2_score(products, fit_.model);
  if (options_.fit_intercept) warn_of_constant(table, products);
  if (fit_.converged || table.group().rank() != 0) return;
  log().warn("coordinate descent did not converge in {} iterations: raise max_iter, alpha or tol, or scale the columns",
             options_.max_iter);
}

std::vector<ElasticNetFit> ElasticNet::path(const Table& table, const std::vector<double>& alphas) const {
  check_has_target(table);
  auto fits = elastic_net_path(gram(table, options_.threads), table.columns(), options_, alphas);
  for (auto& fit : fits) share(table, fit.model);
  return fits;
}

double ElasticNet::score(const Table& table) const {
  check_has_target(table);
  fit_.model.check_for(table);
  return r2_score(gram(table, options_.threads), fit_.model);
}

ModelFile ElasticNet::file(const Table& table) const {
  return linear_file(kName, fit_.model, table,
                     {{"alpha", options_.alpha},
                      {"l1_ratio", options_.l1_ratio},
                      {"fit_intercept", options_.fit_intercept},
                      {"max_iter", options_.max_iter},
                      {"tol", options_.tol},
                      {"positive", options_.positive},
                      {"n_iter", fit_.n_iter}});
}

namespace {

const PredictorRegistry::Add registered{kName, "What a lasso or an elastic net says",
                                        [](const ModelFile& file) { return std::make_unique<LinearPredictor>(file); }};

}  // namespace
}  // namespace lockstep::ml
