#include "lockstep/ml/least_squares.h"

#include <algorithm>
#include <limits>

#include <ATen/TensorOperators.h>
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

#include "lockstep/core/one_thread.h"

namespace lockstep::ml {

at::Tensor LinearModel::predict(const at::Tensor& x) const { return x.to(at::kDouble).matmul(coef.t()) + intercept; }

NormalEquations::NormalEquations(const Gram& gram, std::int64_t columns, bool fit_intercept)
    : mean_(gram.mean), columns_(columns), fit_intercept_(fit_intercept) {
  const OneThread same_bits;
  const at::Tensor all = fit_intercept ? gram.centred : gram.centred + gram.weight * at::outer(gram.mean, gram.mean);
  products_ = all.slice(0, 0, columns).slice(1, 0, columns);
  with_targets_ = all.slice(0, 0, columns).slice(1, columns).contiguous();
  // A column whose values differ by rounding alone is constant.
  constexpr double kRounding = 1e-14;
  const at::Tensor diagonal = products_.diagonal();
  const at::Tensor size = gram.weight * mean_.slice(0, 0, columns).square();
  const at::Tensor constant = diagonal.le(fit_intercept ? size * kRounding * kRounding : size * 0);
  scale_ = at::where(constant, at::zeros({}, at::kDouble), diagonal.rsqrt());
  const at::Tensor scaled = products_ * at::outer(scale_, scale_);
  std::tie(values_, vectors_) = at::linalg_eigh(scaled);
  // Eigenvalues of dependent columns are rounding, which grows with their number.
  const double largest = values_[-1].item<double>();
  const double least = largest * static_cast<double>(columns) * 64 * std::numeric_limits<double>::epsilon();
  const at::Tensor null = values_.le(least);
  const std::int64_t nulls = null.sum().item<std::int64_t>();
  if (nulls == 0) return;
  const at::Tensor of_scaled = vectors_.slice(1, 0, nulls);
  const at::Tensor unscaled = of_scaled * at::where(constant, at::ones_like(scale_), scale_).unsqueeze(1);
  null_space_ = std::get<0>(at::linalg_qr(unscaled));
  constexpr double kPart = 1e-6;
  const at::Tensor part = null_space_.square().sum(1).sqrt();
  for (std::int64_t column = 0; column < columns; ++column) {
    if (part[column].item<double>() > kPart) undetermined_.push_back(column);
  }
}

LinearModel NormalEquations::model_of(const at::Tensor& coef) const {
  LinearModel model;
  model.coef = coef.t().contiguous();
  const at::Tensor x = mean_.slice(0, 0, columns_), y = mean_.slice(0, columns_);
  model.intercept = fit_intercept_ ? y - model.coef.matmul(x) : at::zeros_like(y);
  return model;
}

LinearModel NormalEquations::solve() const {
  const OneThread same_bits;
  const std::int64_t nulls = null_space_.defined() ? null_space_.size(1) : 0;
  const at::Tensor vectors = vectors_.slice(1, nulls), values = values_.slice(0, nulls);
  const at::Tensor scale = scale_.unsqueeze(1);
  const auto solved = [&](const at::Tensor& right) {
    return scale * vectors.matmul(vectors.t().matmul(scale * right) / values.unsqueeze(1));
  };
  at::Tensor coef = solved(with_targets_);
  // Once more with what is left: an eigenvector is not as exact as the products are.
  coef = coef + solved(with_targets_ - products_.matmul(coef));
  if (nulls > 0) coef = coef - null_space_.matmul(null_space_.t().matmul(coef));
  return model_of(coef);
}

LinearModel NormalEquations::solve(double alpha) const {
  if (alpha == 0) return solve();
  const OneThread same_bits;
  const at::Tensor system = products_ + alpha * at::eye(columns_, products_.options());
  const at::Tensor factor = std::get<0>(at::linalg_cholesky_ex(system));
  at::Tensor coef = at::cholesky_solve(with_targets_, factor);
  coef = coef + at::cholesky_solve(with_targets_ - system.matmul(coef), factor);
  return model_of(coef);
}

}  // namespace lockstep::ml
