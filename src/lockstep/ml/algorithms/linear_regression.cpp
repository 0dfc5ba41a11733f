#include "lockstep/ml/algorithms/linear_regression.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include <ATen/Parallel.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/ml/check_option.h"
#include "lockstep/ml/dense_blocks.h"
#include "lockstep/ml/gram.h"
#include "lockstep/ml/least_squares.h"
#include "lockstep/ml/preparation.h"
#include "lockstep/ml/tsqr.h"

namespace lockstep::ml {
namespace {

constexpr const char kName[] = "linreg";

/// Coefficients of a table for any penalty, by products or, once it is needed, by the triangular factor of its rows.
class Solver {
 public:
  /// A collective.
  Solver(const Table& table, const LinearRegressionOptions& options)
      : table_(table),
        options_(options),
        gram_(gram(table, options.threads)),
        by_products_(gram_, table.columns(), options.fit_intercept) {
    find_onehot();
  }

  /// Which of both the penalty needs. A collective.
  const NormalEquations& equations(double alpha) {
    if (!needs_factor(alpha)) return by_products_;
    if (!by_factor_) {
      DenseBlocks rows(table_, options_.threads, gram_.mean, /*with_targets=*/true);
      const at::Tensor factor = triangular_factor(table_, options_.threads, rows.width(),
                                                  [&](const Block& block, int thread) { return rows(block, thread); });
      by_factor_.emplace(gram_, factor, table_.type(), table_.columns(), options_.fit_intercept);
    }
    return *by_factor_;
  }
  bool is_factor(const NormalEquations& equations) const noexcept { return &equations != &by_products_; }
  const Gram& products() const noexcept { return gram_; }
  /// Fields of --onehot, if columns are not determined for their sake alone.
  std::vector<std::string> onehot_alone() const {
    const bool alone = by_products_.depends_only_by(static_cast<std::int64_t>(onehot_.size()));
    return alone ? onehot_ : std::vector<std::string>();
  }

 private:
  /// Sums of products are rounded to some 1e-16 of their size, and coefficients err by that times the condition of the
  /// products, which is that of the columns squared. Up to 1e6 this is some 1e-10, and below 1e-8 with room for many
  /// columns and a bad order. The factor errs by 1e-16 times the root of it, as long as the targets are explained well:
  /// what is left of them counts with the square in either, since it does so in the data themselves.
  bool needs_factor(double alpha) const {
    if (options_.solver != "auto") return options_.solver == "qr";
    constexpr double kMost = 1e6;
    const double condition = by_products_.condition_but_for(static_cast<std::int64_t>(onehot_.size()));
    const bool bad = condition > kMost && (alpha == 0 || by_products_.condition(alpha) > kMost);
    // Hosts may compute the last bits in different ways, and must do the same sweeps.
    at::Tensor of_first = at::full({1}, bad, at::kLong);
    table_.group().broadcast_(of_first, 0, {.name = "solver"}).wait();
    return of_first.item<std::int64_t>() != 0;
  }

  /// Beside an intercept the columns of each such field depend on each other, unless all but one are constant.
  void find_onehot() {
    if (!options_.fit_intercept || table_.preparation() == nullptr) return;
    const at::Tensor constant = is_constant(gram_);
    const auto& fields = table_.preparation()->onehot;
    const auto columns = table_.preparation()->onehot_columns(table_.names());
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const auto differ = std::count_if(columns[i].begin(), columns[i].end(),
                                        [&](std::int64_t column) { return !constant[column].item<bool>(); });
      if (differ > 1) onehot_.push_back(fields[i]);
    }
  }

  const Table& table_;
  const LinearRegressionOptions& options_;
  std::vector<std::string> onehot_;
  const Gram gram_;
  const NormalEquations by_products_;
  std::optional<NormalEquations> by_factor_;
};

}  // namespace

LinearRegression::LinearRegression(LinearRegressionOptions options) : options_(std::move(options)) {
  check_from_zero_on(options_.alpha, "alpha");
  check_one_of(options_.solver, "solver", {"auto", "gram", "qr"});
  if (options_.threads == 0) options_.threads = at::get_num_threads();
}

LinearRegression LinearRegression::from(const ModelFile& file) {
  LinearRegressionOptions options;
  options.alpha = file.parameter("alpha", options.alpha);
  options.fit_intercept = file.parameter("fit_intercept", options.fit_intercept);
  LinearRegression result(options);
  result.model_ = linear_model_from(file);
  return result;
}

void LinearRegression::fit(const Table& table) {
  check_has_target(table);
  Solver solver(table, options_);
  const NormalEquations& equations = solver.equations(options_.alpha);
  solver_ = solver.is_factor(equations) ? "qr" : "gram";
  model_ = equations.solve(options_.alpha);
  share(table, model_);
  fitted_score_.reset();
  if (solver_ == "gram") fitted_score_ = r2_score(solver.products(), model_);
  undetermined_.clear();
  for (const std::int64_t column : equations.undetermined()) undetermined_.push_back(table.name_of(column));
  if (undetermined_.empty() || options_.alpha > 0 || table.group().rank() != 0) return;
  const auto onehot = solver.onehot_alone();
  const bool any_constant = is_constant(solver.products()).slice(0, 0, table.columns()).any().item<bool>();
  onehot.empty() || any_constant ? warn_of_undetermined(undetermined_) : tell_of_onehot(onehot);
}

std::vector<LinearModel> LinearRegression::path(const Table& table, const std::vector<double>& alphas) const {
  check_has_target(table);
  Solver solver(table, options_);
  std::vector<LinearModel> models;
  for (const double alpha : alphas) {
    models.push_back(solver.equations(alpha).solve(alpha));
    share(table, models.back());
  }
  return models;
}

double LinearRegression::score(const Table& table) const {
  check_has_target(table);
  model_.check_for(table);
  return solver_ == "qr" ? r2_score_of_rows(table, model_, options_.threads)
                         : r2_score(gram(table, options_.threads), model_);
}

ModelFile LinearRegression::file(const Table& table) const {
  return linear_file(kName, model_, table, {{"alpha", options_.alpha}, {"fit_intercept", options_.fit_intercept}});
}

namespace {

const PredictorRegistry::Add registered{kName, "What linear or ridge regression says",
                                        [](const ModelFile& file) { return std::make_unique<LinearPredictor>(file); }};

}  // namespace
}  // namespace lockstep::ml
