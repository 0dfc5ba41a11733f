#include "lockstep/ml/whitening.h"

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_cholesky_ex.h>
#include <ATen/ops/linalg_solve_triangular.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "lockstep/core/one_thread.h"
#include "lockstep/ml/gram.h"
#include "lockstep/ml/moments.h"
#include "lockstep/ml/too_large.h"

namespace lockstep::ml {
namespace {

// Products of more columns cost more than they save.
constexpr std::int64_t kMostColumns = 1024;

/// Products of columns without an intercept, and variances of wide ones, may be too large where nobody looked before.
/// Of them no little more is enough: factor_of() would not end. A collective if they are.
void check_curvature(const Table& table, const at::Tensor& curvature) {
  if (curvature.isfinite().all().item<bool>()) return;
  check_finite(table);
  fail_of_large_products();
}

/// The Cholesky factor; of a matrix whose directions some are flat, of a little more.
at::Tensor factor_of(const at::Tensor& matrix) {
  const at::Tensor diagonal = matrix.diagonal().clamp_min(1e-300);
  for (double more = 1e-10;; more *= 100) {
    const auto [factor, info] = at::linalg_cholesky_ex(matrix + (more * diagonal).diag());
    if (info.item<int>() == 0) return factor;
  }
}

at::Tensor rows_of(const std::vector<double>& values, std::int64_t width) {
  return at::tensor(values, at::kDouble).view({-1, width});
}

std::vector<double> values_of(const at::Tensor& rows) {
  const at::Tensor values = rows.contiguous();
  return {values.const_data_ptr<double>(), values.const_data_ptr<double>() + values.numel()};
}

}  // namespace

Whitening::Whitening(const Table& table, bool fit_intercept, double share, double l2, int threads) {
  const OneThread same_bits;
  const std::int64_t columns = table.columns(), width = columns + (fit_intercept ? 1 : 0);
  // The intercept's column is 1. A column that is 0 has a gradient of 0, whatever its scale.
  at::Tensor mean, curvature = at::zeros({width}, at::kDouble);
  if (columns > kMostColumns) {
    const Moments all = moments(table, threads);
    mean = all.mean;
    curvature.slice(0, 0, columns)
        .copy_(share * (fit_intercept ? all.variance() : all.variance() + mean.square()) + l2);
    check_curvature(table, curvature);
    factor_ = curvature.where(curvature.gt(0), at::full({}, share, at::kDouble)).sqrt();
  } else {
    const Gram all = gram(table, threads);
    mean = all.mean.slice(0, 0, columns);
    at::Tensor products = all.centred.slice(0, 0, columns).slice(1, 0, columns) / all.weight;
    if (!fit_intercept) products = products + at::outer(mean, mean);
    curvature = at::zeros({width, width}, at::kDouble);
    curvature.slice(0, 0, columns).slice(1, 0, columns).copy_(share * products);
    curvature.diagonal().slice(0, 0, columns).add_(l2);
    curvature.diagonal().add_(curvature.diagonal().le(0).to(at::kDouble) * share);
    check_curvature(table, curvature);
    factor_ = factor_of(curvature);
  }
  mean_ = fit_intercept ? mean.contiguous() : at::zeros({columns}, at::kDouble);
}

std::vector<double> Whitening::whitened(const std::vector<double>& unknowns) const {
  const OneThread same_bits;
  const at::Tensor rows = rows_of(unknowns, factor_.size(0));
  return values_of(factor_.dim() == 1 ? rows * factor_ : rows.matmul(factor_));
}

std::vector<double> Whitening::unknowns(const std::vector<double>& whitened) const {
  const OneThread same_bits;
  const at::Tensor rows = rows_of(whitened, factor_.size(0));
  return values_of(factor_.dim() == 1 ? rows / factor_
                                      : at::linalg_solve_triangular(factor_, rows, /*upper=*/false, /*left=*/false));
}

std::vector<double> Whitening::whitened_gradient(const std::vector<double>& gradient) const {
  const OneThread same_bits;
  const at::Tensor rows = rows_of(gradient, factor_.size(0));
  return values_of(factor_.dim() == 1 ? rows / factor_
                                      : at::linalg_solve_triangular(factor_.t(), rows, /*upper=*/true, /*left=*/false));
}

std::vector<double> Whitening::gradient(const std::vector<double>& whitened) const {
  const OneThread same_bits;
  const at::Tensor rows = rows_of(whitened, factor_.size(0));
  return values_of(factor_.dim() == 1 ? rows * factor_ : rows.matmul(factor_.t()));
}

}  // namespace lockstep::ml
