#include "lockstep/ml/least_squares.h"

#include <algorithm>
#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cholesky_solve.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_cholesky_ex.h>
#include <ATen/ops/linalg_eigh.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "lockstep/core/log.h"
#include "lockstep/core/one_thread.h"
#include "lockstep/core/text.h"

namespace lockstep::ml {

void warn_of_undetermined(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 10;
  log().warn("{} are constant or depend on each other: of all coefficients that fit as well, those of the least norm",
             list_some(names, kMost));
}

NormalEquations::NormalEquations(const Gram& gram, std::int64_t columns, bool fit_intercept)
    : weight_(gram.weight),
      x_mean_(gram.mean.slice(0, 0, columns).unsqueeze(1)),
      y_mean_(gram.mean.slice(0, columns)),
      fit_intercept_(fit_intercept) {
  const OneThread same_bits;
  products_ = gram.centred.slice(0, 0, columns).slice(1, 0, columns);
  with_targets_ = gram.centred.slice(0, 0, columns).slice(1, columns).contiguous();
  // A column whose values differ by rounding alone is constant.
  constexpr double kRounding = 1e-14;
  const at::Tensor diagonal = products_.diagonal();
  const at::Tensor constant = diagonal.le(weight_ * (x_mean_.squeeze(1) * kRounding).square());
  scale_ = at::where(constant, at::zeros({}, at::kDouble), diagonal.rsqrt());
  const at::Tensor scaled = products_ * at::outer(scale_, scale_);
  std::tie(values_, vectors_) = at::linalg_eigh(scaled);
  // Eigenvalues of dependent columns are rounding, which grows with their number.
  const double largest = values_[-1].item<double>();
  const double least = largest * static_cast<double>(columns) * 64 * std::numeric_limits<double>::epsilon();
  const std::int64_t nulls = values_.le(least).sum().item<std::int64_t>();
  find_null_space(constant, nulls);
}

void NormalEquations::find_null_space(const at::Tensor& constant, std::int64_t nulls) {
  const at::Tensor unscale = at::where(constant, at::ones_like(scale_), scale_).unsqueeze(1);
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
  const at::Tensor system =
      alpha == 0 ? products_ : products_ + alpha * at::eye(products_.size(0), products_.options());
  const at::Tensor factor = alpha == 0 ? at::Tensor() : std::get<0>(at::linalg_cholesky_ex(system));
  const std::int64_t nulls = null_space_.size(1);
  const at::Tensor vectors = vectors_.slice(1, nulls), values = values_.slice(0, nulls).unsqueeze(1);
  const at::Tensor scale = scale_.unsqueeze(1);
  const auto nearly = [&](const at::Tensor& side) {
    return alpha == 0 ? scale * vectors.matmul(vectors.t().matmul(scale * side) / values)
                      : at::cholesky_solve(side, factor);
  };
  const at::Tensor first = nearly(right);
  // Once more with what is left: an eigenvector is not as exact as the products are.
  return without_nulls(first + nearly(right - system.matmul(first)));
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
  at::Tensor coef = solved(with_targets_, alpha);
  if (!fit_intercept_) coef = through_origin(coef, alpha);
  LinearModel model;
  model.coef = coef.t().contiguous();
  model.intercept = fit_intercept_ ? y_mean_ - model.coef.matmul(x_mean_).squeeze(1) : at::zeros_like(y_mean_);
  return model;
}

}  // namespace lockstep::ml
