#include "lockstep/ml/algorithms/covariance.h"

#include <cmath>
#include <limits>
#include <memory>
#include <numbers>
#include <tuple>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_eigh.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/one_thread.h"
#include "lockstep/ml/check_option.h"
#include "lockstep/ml/check_rows.h"

namespace lockstep::ml {
namespace {

constexpr const char kName[] = "covariance";

/// Of the columns alone.
Gram of_columns(const Table& table, int threads) {
  const Gram all = gram(table, threads);
  const std::int64_t columns = table.columns();
  return {all.weight, all.mean.slice(0, 0, columns).contiguous(),
          all.centred.slice(0, 0, columns).slice(1, 0, columns).contiguous(),
          all.far.slice(0, 0, columns).contiguous()};
}

/// Eigenvalues and -vectors of what is not rounding.
std::pair<at::Tensor, at::Tensor> eigen(const at::Tensor& covariance) {
  const OneThread same_bits;
  auto [values, vectors] = at::linalg_eigh(covariance);
  const double least =
      values.abs().max().item<double>() * static_cast<double>(values.numel()) * std::numeric_limits<double>::epsilon();
  const std::int64_t none = values.le(least).sum().item<std::int64_t>();
  return {values.slice(0, none), vectors.slice(1, none)};
}

}  // namespace

at::Tensor correlation_of(const at::Tensor& products) {
  const at::Tensor scale = products.diagonal().rsqrt();
  at::Tensor result = (products * scale.unsqueeze(1) * scale.unsqueeze(0)).clamp(-1, 1);
  result.diagonal().masked_fill_(products.diagonal().gt(0), 1);
  return result;
}

EmpiricalCovariance::EmpiricalCovariance(EmpiricalCovarianceOptions options) : options_(options) {
  check_from_zero_on(options_.ddof, "ddof");
  if (options_.threads == 0) options_.threads = at::get_num_threads();
}

EmpiricalCovariance EmpiricalCovariance::from(const ModelFile& file) {
  EmpiricalCovarianceOptions options;
  options.assume_centered = file.parameter("assume_centered", options.assume_centered);
  options.ddof = file.parameter("ddof", options.ddof);
  EmpiricalCovariance result(options);
  result.covariance_ = file["covariance"];
  result.location_ = file.by_columns("location");
  const std::int64_t columns = result.location_.numel();
  if (result.location_.dim() != 1 || result.covariance_.sizes() != at::IntArrayRef({columns, columns}) ||
      result.location_.scalar_type() != at::kDouble || result.covariance_.scalar_type() != at::kDouble) {
    fail(Fault::Data, "the model's covariance and location do not go together");
  }
  return result;
}

void EmpiricalCovariance::fit(const Table& table) { become(of_columns(table, options_.threads)); }

void EmpiricalCovariance::partial_fit(const Table& table) {
  if (!location_.defined()) return fit(table);
  check_can_go_on(gram_.has_value());
  check_columns(table, location_.numel());
  become(together({*gram_, of_columns(table, options_.threads)}));
}

void EmpiricalCovariance::become(const Gram& all) {
  if (!(all.weight > options_.ddof)) {
    fail(Fault::Usage, fmt::format("rows that weigh {} are too few for ddof = {}", all.weight, options_.ddof));
  }
  gram_ = all;
  const bool centred = options_.assume_centered;
  location_ = centred ? at::zeros_like(all.mean) : all.mean;
  const at::Tensor products = centred ? all.centred + all.weight * at::outer(all.mean, all.mean) : all.centred;
  covariance_ = products / (all.weight - options_.ddof);
}

at::Tensor EmpiricalCovariance::correlation() const {
  check_fitted(location_.defined());
  return correlation_of(covariance_);
}

at::Tensor EmpiricalCovariance::precision() const {
  check_fitted(location_.defined());
  const auto [values, vectors] = eigen(covariance_);
  const OneThread same_bits;
  return (vectors / values).matmul(vectors.t());
}

at::Tensor EmpiricalCovariance::mahalanobis(const at::Tensor& x) const {
  const at::Tensor rows = checked_rows(x, fitted_columns(location_)).to(at::kDouble);
  const auto [values, vectors] = eigen(covariance_);
  const at::Tensor along = (rows - location_).matmul(vectors);
  return (along.square() / values).sum(1);
}

double EmpiricalCovariance::score(const Table& table) const {
  const std::int64_t columns = fitted_columns(location_);
  check_columns(table, columns);
  const auto [values, vectors] = eigen(covariance_);
  if (values.numel() < columns) return -std::numeric_limits<double>::infinity();
  const Gram rows = of_columns(table, options_.threads);
  const OneThread same_bits;
  const at::Tensor off = rows.mean - location_;
  const at::Tensor around = rows.centred / rows.weight + at::outer(off, off);
  const at::Tensor along = (vectors * around.matmul(vectors)).sum(0);
  const double squares = (along / values).sum().item<double>(), volume = values.log().sum().item<double>();
  return -0.5 * (squares + volume + static_cast<double>(columns) * std::log(2 * std::numbers::pi));
}

ModelFile EmpiricalCovariance::file(const Table& table) const {
  return file_for(table, kName, {{"assume_centered", options_.assume_centered}, {"ddof", options_.ddof}},
                  {{"covariance", covariance_},
                   {"location", location_},
                   {"correlation", correlation()},
                   {"precision", precision()}});
}

namespace {

class Distances final : public Predictor {
 public:
  explicit Distances(const ModelFile& model) : covariance_(EmpiricalCovariance::from(model)) {}
  at::Tensor predict(const at::Tensor& x) const override { return covariance_.mahalanobis(x); }
  std::vector<std::string> outputs() const override { return {"mahalanobis"}; }

 private:
  EmpiricalCovariance covariance_;
};

const PredictorRegistry::Add registered{kName, "How far a row lies from the others, in units of their covariance",
                                        [](const ModelFile& model) { return std::make_unique<Distances>(model); }};

}  // namespace
}  // namespace lockstep::ml
