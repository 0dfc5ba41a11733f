#include "lockstep/ml/least_squares.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cholesky_solve.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_cholesky_ex.h>
#include <ATen/ops/linalg_eigh.h>
#include <ATen/ops/linalg_eigvalsh.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/linalg_solve_triangular.h>
#include <ATen/ops/linalg_svd.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "lockstep/core/log.h"
#include "lockstep/core/one_thread.h"
#include "lockstep/core/text.h"

namespace lockstep::ml {
namespace {

constexpr std::size_t kMostNames = 10;  // of columns in a warning

/// How many eigenvalues, the smallest of which come first, are 0 but for rounding, which grows with their number.
std::int64_t zeros_of(const at::Tensor& values) {
  const double least =
      values[-1].item<double>() * static_cast<double>(values.numel()) * 64 * std::numeric_limits<double>::epsilon();
  return values.le(least).sum().item<std::int64_t>();
}

/// What of the inverse of a scaled system is more than rounding.
struct Inverse {
  at::Tensor scale, vectors, values;

  Inverse(const at::Tensor& of_unknowns, const at::Tensor& all_vectors, const at::Tensor& all_values,
          std::int64_t zeros)
      : scale(of_unknowns.unsqueeze(1)),
        vectors(all_vectors.slice(1, zeros)),
        values(all_values.slice(0, zeros).unsqueeze(1)) {}
  at::Tensor times(const at::Tensor& side) const {
    return scale * vectors.matmul(vectors.t().matmul(scale * side) / values);
  }
};

/// A penalty is as a row more for each column: Q and R of the factor with those below it.
std::tuple<at::Tensor, at::Tensor> penalised(const at::Tensor& factor, double alpha) {
  return at::linalg_qr(at::cat({factor, std::sqrt(alpha) * at::eye(factor.size(1), factor.options())}));
}

}  // namespace

void warn_of_undetermined(const std::vector<std::string>& names) {
  log().warn("{} are constant or depend on each other: of all coefficients that fit as well, those of the least norm",
             list_some(names, kMostNames));
}

void tell_of_onehot(const std::vector<std::string>& fields) {
  log().info("columns of --onehot {} sum up to 1, as the intercept does: the coefficients are those of the least norm",
             list_some(fields, kMostNames));
}

void warn_of_constant(const Table& table, const Gram& gram) {
  const at::Tensor constant = is_constant(gram).slice(0, 0, table.columns()).nonzero();
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < constant.numel(); ++i)
    names.push_back(table.name_of(constant.const_data_ptr<std::int64_t>()[i]));
  if (names.empty() || table.group().rank() != 0) return;
  log().warn("{} {} constant: the coefficient is 0", list_some(names, kMostNames), names.size() == 1 ? "is" : "are");
}

NormalEquations::NormalEquations(const Gram& gram, std::int64_t columns, bool fit_intercept)
    : fit_intercept_(fit_intercept) {
  const OneThread same_bits;
  take(gram, columns);
  std::tie(values_, vectors_) = at::linalg_eigh(products_ * at::outer(scale_, scale_));
  find_null_space(zeros_of(values_));
}

NormalEquations::NormalEquations(const Gram& gram, const at::Tensor& factor, at::ScalarType stored,
                                 std::int64_t columns, bool fit_intercept)
    : fit_intercept_(fit_intercept) {
  const OneThread same_bits;
  take(gram, columns);
  factor_ = factor.slice(0, 0, columns).slice(1, 0, columns) * constant_.logical_not();
  factor_targets_ = factor.slice(0, 0, columns).slice(1, columns).contiguous();
  const auto [left, roots, right] = at::linalg_svd(factor_ * scale_, /*full_matrices=*/false);
  // The smallest first, as eigenvalues are.
  left_ = left.flip(1);
  roots_ = roots.flip(0);
  vectors_ = right.flip(0).t();
  values_ = roots_.square();
  // Dependent columns differ by rounding: that of the factor, and that of their values as they were stored, which is
  // larger the farther a column is from 0.
  const double arithmetic =
      512 * std::numeric_limits<double>::epsilon() * static_cast<double>(columns) * roots_[-1].item<double>();
  const double storing = stored == at::kFloat ? static_cast<double>(std::numeric_limits<float>::epsilon())
                                              : std::numeric_limits<double>::epsilon();
  const double far = (1 + weight_ * (x_mean_.squeeze(1) * scale_).square()).sum().sqrt().item<double>();
  find_null_space(roots_.le(std::max(arithmetic, storing * far)).sum().item<std::int64_t>());
}

void NormalEquations::take(const Gram& gram, std::int64_t columns) {
  weight_ = gram.weight;
  x_mean_ = gram.mean.slice(0, 0, columns).unsqueeze(1);
  y_mean_ = gram.mean.slice(0, columns);
  products_ = gram.centred.slice(0, 0, columns).slice(1, 0, columns);
  with_targets_ = gram.centred.slice(0, 0, columns).slice(1, columns).contiguous();
  constant_ = is_constant(gram).slice(0, 0, columns);
  scale_ = at::where(constant_, at::zeros({}, at::kDouble), products_.diagonal().rsqrt());
}

double NormalEquations::condition(double alpha) const {
  const OneThread same_bits;
  at::Tensor values = values_;
  std::int64_t zeros = constant_.sum().item<std::int64_t>();
  if (alpha > 0) {
    const at::Tensor system = products_ + alpha * at::eye(products_.size(0), products_.options());
    const at::Tensor scale = system.diagonal().rsqrt();
    values = at::linalg_eigvalsh(system * at::outer(scale, scale));
    zeros = 0;
  }
  const at::Tensor sizes = std::get<0>(values.abs().sort()).slice(0, zeros);
  return sizes.numel() == 0 ? 1 : (sizes[-1] / sizes[0]).item<double>();
}

bool NormalEquations::depends_only_by(std::int64_t known) const {
  return null_space_.size(1) == constant_.sum().item<std::int64_t>() + known;
}

double NormalEquations::condition_but_for(std::int64_t known) const {
  if (known == 0 || !depends_only_by(known)) return condition();
  const at::Tensor others = values_.slice(0, null_space_.size(1));  // the smallest come first
  return others.numel() == 0 ? 1 : (others[-1] / others[0]).item<double>();
}

void NormalEquations::find_null_space(std::int64_t nulls) {
  const at::Tensor unscale = at::where(constant_, at::ones_like(scale_), scale_).unsqueeze(1);
  const at::Tensor unscaled = vectors_.slice(1, 0, nulls) * unscale;
  null_space_ = std::get<0>(at::linalg_qr(unscaled));
  constexpr double kRounding = 1e-12;
  const double mean = unscaled.t().matmul(x_mean_).norm().item<double>();
  if (fit_intercept_ || mean <= kRounding * (unscale * x_mean_).norm().item<double>()) {
    free_ = null_space_;
    return find_undetermined();
  }
  // Without an intercept the data say how much of this there must be; only the rest of the space is free.
  const at::Tensor means = null_space_.t().matmul(x_mean_);
  steady_ = null_space_.matmul(means);
  const at::Tensor turned = std::get<0>(at::linalg_qr(at::cat({means, at::eye(nulls, means.options())}, 1)));
  free_ = null_space_.matmul(turned.slice(1, 1));
  find_undetermined();
}

void NormalEquations::find_undetermined() {
  constexpr double kPart = 1e-6;
  const at::Tensor part = free_.square().sum(1).sqrt();
  for (std::int64_t column = 0; column < part.size(0); ++column) {
    if (part[column].item<double>() > kPart) undetermined_.push_back(column);
  }
}

at::Tensor NormalEquations::without_nulls(const at::Tensor& columns) const {
  return columns - null_space_.matmul(null_space_.t().matmul(columns));
}

LinearModel NormalEquations::least_norm(const LinearModel& model) const {
  const OneThread same_bits;
  const at::Tensor excess = model.coef.matmul(free_).matmul(free_.t());
  return {model.coef - excess, fit_intercept_ ? model.intercept + excess.matmul(x_mean_).squeeze(1) : model.intercept};
}

/// (products + alpha)⁻¹ · right, which lies where the products do not vanish.
at::Tensor NormalEquations::solved(const at::Tensor& right, double alpha) const {
  Inverse inverse(scale_, vectors_, values_, null_space_.size(1));
  if (factor_.defined()) {
    return without_nulls(alpha == 0
                             ? inverse.times(right)
                             : at::cholesky_solve(right, std::get<1>(penalised(factor_, alpha)), /*upper=*/true));
  }
  at::Tensor system = products_, cholesky;
  if (alpha > 0) {
    system = products_ + alpha * at::eye(products_.size(0), products_.options());
    const auto [triangle, info] = at::linalg_cholesky_ex(system);
    if (info.item<int>() == 0) {
      cholesky = triangle;
    } else {
      // Columns depend on each other, and the penalty is less than the rounding of their products: LAPACK stopped
      // half-way. Of other columns it may be more than that, so their eigenvalues are those with it.
      const at::Tensor scale = at::where(constant_, at::zeros({}, at::kDouble), system.diagonal().rsqrt());
      const auto [values, vectors] = at::linalg_eigh(system * at::outer(scale, scale));
      inverse = Inverse(scale, vectors, values, zeros_of(values));
    }
  }
  const auto nearly = [&](const at::Tensor& side) {
    return cholesky.defined() ? at::cholesky_solve(side, cholesky) : inverse.times(side);
  };
  const at::Tensor first = nearly(right);
  // Once more with what is left: an eigenvector is not as exact as the products are.
  return without_nulls(first + nearly(right - system.matmul(first)));
}

/// The same of the products with the targets, which the factor spares: its condition is the root of theirs.
at::Tensor NormalEquations::by_factor(double alpha) const {
  if (alpha > 0) {
    const auto [rotation, triangle] = penalised(factor_, alpha);
    const at::Tensor side = rotation.slice(0, 0, factor_.size(0)).t().matmul(factor_targets_);
    return without_nulls(at::linalg_solve_triangular(triangle, side, /*upper=*/true));
  }
  const std::int64_t nulls = null_space_.size(1);
  const at::Tensor side = left_.slice(1, nulls).t().matmul(factor_targets_) / roots_.slice(0, nulls).unsqueeze(1);
  return without_nulls(scale_.unsqueeze(1) * vectors_.slice(1, nulls).matmul(side));
}

/// Of the coefficients with an intercept those without: the products that are not centred have weight · mean · meanᵀ
/// more, which is one direction (Sherman and Morrison). Added to them a large mean would take their digits away.
at::Tensor NormalEquations::through_origin(const at::Tensor& coef, double alpha) const {
  const at::Tensor intercept = (y_mean_ - coef.t().matmul(x_mean_).squeeze(1)).unsqueeze(0);
  if (steady_.defined() && alpha == 0) return coef + steady_.matmul(intercept / x_mean_.t().matmul(steady_));
  at::Tensor way = solved(without_nulls(x_mean_), alpha);
  if (steady_.defined()) way = way + steady_ / alpha;
  return coef + way.matmul(weight_ * intercept / (1 + weight_ * x_mean_.t().matmul(way)));
}

LinearModel NormalEquations::solve(double alpha) const {
  const OneThread same_bits;
  at::Tensor coef = factor_.defined() ? by_factor(alpha) : solved(with_targets_, alpha);
  if (!fit_intercept_) coef = through_origin(coef, alpha);
  LinearModel model;
  model.coef = coef.t().contiguous();
  model.intercept = fit_intercept_ ? y_mean_ - model.coef.matmul(x_mean_).squeeze(1) : at::zeros_like(y_mean_);
  return model;
}

}  // namespace lockstep::ml
