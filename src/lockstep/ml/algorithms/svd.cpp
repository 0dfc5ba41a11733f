#include "lockstep/ml/algorithms/svd.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/one_thread.h"
#include "lockstep/ml/check_option.h"
#include "lockstep/ml/check_rows.h"
#include "lockstep/ml/moments.h"
#include "lockstep/ml/numbered.h"
#include "lockstep/ml/too_large.h"

namespace lockstep::ml {
namespace {

constexpr const char kTruncated[] = "truncated-svd";
constexpr const char kFull[] = "svd";

SingularValues singular_values_of(const ModelFile& file, const char* vectors) {
  SingularValues result{file["singular_values"], file.by_columns(vectors)};
  if (result.vectors.dim() != 2 || result.vectors.scalar_type() != at::kDouble ||
      result.values.scalar_type() != at::kDouble ||
      result.values.sizes() != at::IntArrayRef({result.vectors.size(0)})) {
    fail(Fault::Data, fmt::format("the model's singular_values and {} do not go together", vectors));
  }
  return result;
}

}  // namespace

TruncatedSVD::TruncatedSVD(TruncatedSVDOptions options) : options_(std::move(options)) {
  check_from_one_on(options_.n_components, "n_components");
  check_from_zero_on(static_cast<double>(options_.n_iter), "n_iter");
  check_from_one_on(options_.n_oversamples, "n_oversamples");
  check_one_of(options_.algorithm, "algorithm", {"randomized", "exact"});
  if (options_.threads == 0) options_.threads = at::get_num_threads();
}

TruncatedSVD TruncatedSVD::from(const ModelFile& file) {
  TruncatedSVDOptions options;
  options.n_components = file.parameter("n_components", options.n_components);
  options.algorithm = file.parameter("algorithm", options.algorithm);
  options.n_iter = file.parameter("n_iter", options.n_iter);
  options.n_oversamples = file.parameter("n_oversamples", options.n_oversamples);
  options.random_state = file.parameter("random_state", options.random_state);
  TruncatedSVD result(options);
  result.found_ = singular_values_of(file, "components");
  result.explained_ = file["explained_variance"];
  result.ratio_ = file["explained_variance_ratio"];
  return result;
}

void TruncatedSVD::fit(const Table& table) {
  const std::int64_t most = std::min(table.rows(), table.columns()), wanted = options_.n_components;
  if (wanted > most) {
    fail(Fault::Usage, fmt::format("n_components = {} of {} rows of {} columns; at most {} are there", wanted,
                                   table.rows(), table.columns(), most));
  }
  const Moments columns = finite_moments(table, options_.threads);
  check_weight(columns.weight);
  const double variance = [&] {
    const OneThread same_bits;
    return columns.variance().sum().item<double>();
  }();
  if (!std::isfinite(variance)) fail_of_large_squares();
  if (options_.algorithm == "exact") {
    const SingularValues all = ml::singular_values(table, options_.threads);
    found_ = {all.values.slice(0, 0, wanted).contiguous(), all.vectors.slice(0, 0, wanted).contiguous()};
  } else {
    found_ = random_singular_values(table, options_.threads,
                                    {.components = wanted,
                                     .oversamples = options_.n_oversamples,
                                     .iterations = options_.n_iter,
                                     .seed = options_.random_state});
  }
  // The mean square of the transformed rows is known by the singular values, their mean by that of the rows.
  const OneThread same_bits;
  const at::Tensor mean = found_.vectors.matmul(columns.mean);
  explained_ = (found_.values.square() / columns.weight - mean.square()).clamp_min(0);
  ratio_ = variance > 0 ? explained_ / variance : at::zeros_like(explained_);
  table.group().broadcast_({explained_, ratio_}, 0, {.name = "explained variance"}).wait();
}

at::Tensor TruncatedSVD::transform(const at::Tensor& x) const {
  return checked_rows(x, fitted_columns(found_.vectors)).to(at::kDouble).matmul(found_.vectors.t());
}

at::Tensor TruncatedSVD::inverse_transform(const at::Tensor& components) const {
  check_fitted(found_.vectors.defined());
  return checked_rows(components, found_.vectors.size(0)).to(at::kDouble).matmul(found_.vectors);
}

ModelFile TruncatedSVD::file(const Table& table) const {
  return file_for(table, kTruncated,
                  {{"n_components", options_.n_components},
                   {"algorithm", options_.algorithm},
                   {"n_iter", options_.n_iter},
                   {"n_oversamples", options_.n_oversamples},
                   {"random_state", options_.random_state}},
                  {{"components", found_.vectors},
                   {"singular_values", found_.values},
                   {"explained_variance", explained_},
                   {"explained_variance_ratio", ratio_}});
}

SVD::SVD(SVDOptions options) : options_(options) {
  if (options_.threads == 0) options_.threads = at::get_num_threads();
}

SVD SVD::from(const ModelFile& file) {
  SVD result;
  result.found_ = singular_values_of(file, "vh");
  return result;
}

void SVD::fit(const Table& table) { found_ = ml::singular_values(table, options_.threads); }

at::Tensor SVD::transform(const at::Tensor& x) const {
  const at::Tensor rows = checked_rows(x, fitted_columns(found_.vectors)).to(at::kDouble);
  const double rounding = found_.values[0].item<double>() * static_cast<double>(found_.vectors.size(1)) *
                          std::numeric_limits<double>::epsilon();
  const at::Tensor along = rows.matmul(found_.vectors.t()) / found_.values;
  return at::where(found_.values.gt(rounding), along, at::zeros({}, at::kDouble));
}

ModelFile SVD::file(const Table& table) const {
  return file_for(table, kFull, nlohmann::json::object(), {{"singular_values", found_.values}, {"vh", found_.vectors}});
}

namespace {

class TruncatedRows final : public Predictor {
 public:
  explicit TruncatedRows(const ModelFile& model) : svd_(TruncatedSVD::from(model)) {}
  at::Tensor predict(const at::Tensor& x) const override { return svd_.transform(x); }
  std::vector<std::string> outputs() const override { return numbered("svd", svd_.components().size(0)); }

 private:
  TruncatedSVD svd_;
};

class LeftRows final : public Predictor {
 public:
  explicit LeftRows(const ModelFile& model) : svd_(SVD::from(model)) {}
  at::Tensor predict(const at::Tensor& x) const override { return svd_.transform(x); }
  std::vector<std::string> outputs() const override { return numbered("u", svd_.vh().size(0)); }

 private:
  SVD svd_;
};

const PredictorRegistry::Add truncated{kTruncated, "Rows along the vectors of the largest singular values",
                                       [](const ModelFile& model) { return std::make_unique<TruncatedRows>(model); }};
const PredictorRegistry::Add full{kFull, "Left singular vectors of rows",
                                  [](const ModelFile& model) { return std::make_unique<LeftRows>(model); }};

}  // namespace
}  // namespace lockstep::ml
