#include "lockstep/ml/algorithms/pca.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numbers>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_eigh.h>
#include <ATen/ops/outer.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/one_thread.h"
#include "lockstep/core/text.h"
#include "lockstep/ml/check_option.h"
#include "lockstep/ml/check_rows.h"
#include "lockstep/ml/gram.h"
#include "lockstep/ml/moments.h"
#include "lockstep/ml/numbered.h"
#include "lockstep/ml/singular_values.h"

namespace lockstep::ml {
namespace {

constexpr const char kName[] = "pca";

/// How rows vary along directions that do not depend on each other.
struct Spectrum {
  at::Tensor mean;
  at::Tensor variances;   // the largest first; as many as were computed
  at::Tensor directions;  // one in each row
  double total = 0;       // of the variances, those too that were not computed
  double degrees = 0;     // by which squares were divided
};

double degrees_of(double weight) {
  if (!(weight > 1))
    fail(Fault::Usage,
         fmt::format(
             "rows that weigh {} together have no variance: components need two rows, or weights of more than 1 in all",
             weight));
  return weight - 1;
}

Spectrum by_covariance(const Table& table, int threads) {
  const Gram all = gram(table, threads);
  const std::int64_t columns = table.columns();
  Spectrum result;
  result.degrees = degrees_of(all.weight);
  result.mean = all.mean.slice(0, 0, columns).contiguous();
  {
    const OneThread same_bits;
    const auto [values, vectors] =
        at::linalg_eigh(all.centred.slice(0, 0, columns).slice(1, 0, columns) / result.degrees);
    result.variances = values.flip(0).clamp_min(0).contiguous();
    result.directions = vectors.flip(1).t().contiguous();
  }
  sign_rule_(result.directions);
  // Hosts may compute the last bits in different ways: all take those of rank 0.
  table.group().broadcast_({result.variances, result.directions}, 0, {.name = "components"}).wait();
  const OneThread same_bits;
  result.total = result.variances.sum().item<double>();
  return result;
}

/// From the singular values of the rows around their mean.
template <class Find>
Spectrum by_rows(const Table& table, int threads, const Find& singular_values_around) {
  const Moments columns = finite_moments(table, threads);
  Spectrum result;
  result.degrees = degrees_of(columns.weight);
  result.mean = columns.mean;
  const SingularValues found = singular_values_around(result.mean);
  const OneThread same_bits;
  result.variances = found.values.square() / result.degrees;
  result.directions = found.vectors;
  result.total = columns.squares.sum().item<double>() / result.degrees;
  return result;
}

RandomSubspace subspace_for(const PCAOptions& options, std::int64_t most) {
  const auto components = options.n_components == 0 ? most : static_cast<std::int64_t>(options.n_components);
  const std::int64_t sweeps = static_cast<double>(components) < 0.1 * static_cast<double>(most) ? 7 : 4;
  return {.components = components,
          .oversamples = options.n_oversamples,
          .iterations = options.iterated_power < 0 ? sweeps : options.iterated_power,
          .seed = options.random_state};
}

Spectrum spectrum_of(const Table& table, const std::string& solver, const PCAOptions& options, std::int64_t most) {
  const int threads = options.threads;
  if (solver == "covariance_eigh") return by_covariance(table, threads);
  return by_rows(table, threads, [&](const at::Tensor& mean) {
    return solver == "full" ? singular_values(table, threads, mean)
                            : random_singular_values(table, threads, subspace_for(options, most), mean);
  });
}

/// As scikit-learn chooses.
std::string solver_for(const Table& table, double n_components) {
  const std::int64_t rows = table.rows(), columns = table.columns();
  if (columns <= 1000 && rows >= 10 * columns) return "covariance_eigh";
  if (std::max(rows, columns) <= 500) return "full";
  const bool few = n_components >= 1 && n_components < 0.8 * static_cast<double>(std::min(rows, columns));
  return few ? "randomized" : "full";
}

/// How many of the components are wanted.
std::int64_t count_of(const Spectrum& spectrum, double n_components, std::int64_t most) {
  if (n_components == 0) return most;
  if (n_components >= 1) return static_cast<std::int64_t>(n_components);
  double together = 0;
  for (std::int64_t count = 0; count < most; ++count) {
    together += spectrum.variances[count].item<double>() / spectrum.total;
    if (together > n_components) return count + 1;
  }
  return most;
}

}  // namespace

PCA::PCA(PCAOptions options) : options_(std::move(options)) {
  const double wanted = options_.n_components;
  if (!(wanted >= 0) || (wanted >= 1 && wanted != std::floor(wanted))) {
    fail(Fault::Usage, fmt::format("n_components = {}: it is a whole number, or a share between 0 and 1", wanted));
  }
  check_one_of(options_.svd_solver, "svd_solver", {"auto", "covariance_eigh", "full", "randomized"});
  if (options_.iterated_power < -1) {
    fail(Fault::Usage, fmt::format("iterated_power = {}: it is from 0 on", options_.iterated_power));
  }
  check_from_one_on(options_.n_oversamples, "n_oversamples");
  if (options_.threads == 0) options_.threads = at::get_num_threads();
}

PCA PCA::from(const ModelFile& file) {
  PCAOptions options;
  options.whiten = file.parameter("whiten", options.whiten);
  options.random_state = file.parameter("random_state", options.random_state);
  PCA result(options);
  result.components_ = file.by_columns("components");
  result.explained_ = file["explained_variance"];
  result.ratio_ = file["explained_variance_ratio"];
  result.singular_values_ = file["singular_values"];
  result.mean_ = file.by_columns("mean");
  const auto fits = [](const at::Tensor& tensor, at::IntArrayRef sizes) {
    return tensor.scalar_type() == at::kDouble && tensor.sizes() == sizes;
  };
  if (result.components_.dim() != 2 || !fits(result.components_, result.components_.sizes()) ||
      !fits(result.explained_, {result.components_.size(0)}) || !fits(result.mean_, {result.components_.size(1)})) {
    fail(Fault::Data, "the model's components, explained_variance and mean do not go together");
  }
  result.solver_ = file.parameter("svd_solver", result.solver_);
  result.noise_variance_ = file.parameter("noise_variance", 0.0);
  return result;
}

void PCA::fit(const Table& table) {
  const std::int64_t most = std::min(table.rows(), table.columns());
  const double wanted = options_.n_components;
  if (wanted > static_cast<double>(most)) {
    fail(Fault::Usage, fmt::format("n_components = {} of {} rows of {} columns; at most {} are there", wanted,
                                   table.rows(), table.columns(), most));
  }
  const std::string solver = options_.svd_solver == "auto" ? solver_for(table, wanted) : options_.svd_solver;
  if (solver == "randomized" && wanted > 0 && wanted < 1) {
    fail(Fault::Usage,
         fmt::format("n_components = {}: svd_solver \"randomized\" needs a number of components", wanted));
  }
  const Spectrum spectrum = spectrum_of(table, solver, options_, most);
  const std::int64_t count = count_of(spectrum, wanted, most);
  const OneThread same_bits;
  solver_ = solver;
  mean_ = spectrum.mean;
  components_ = spectrum.directions.slice(0, 0, count).contiguous();
  explained_ = spectrum.variances.slice(0, 0, count).contiguous();
  ratio_ = (explained_ / spectrum.total).nan_to_num(0);  // columns that are all constant have nothing to share
  singular_values_ = (explained_ * spectrum.degrees).sqrt();
  const at::Tensor rest = spectrum.variances.slice(0, count);
  if (count == most) {
    noise_variance_ = 0;
  } else if (rest.numel() > 0) {
    noise_variance_ = rest.mean().item<double>();
  } else {
    const double left = spectrum.total - explained_.sum().item<double>();
    noise_variance_ = std::max(left, 0.0) / static_cast<double>(most - count);
  }
}

at::Tensor PCA::transform(const at::Tensor& x) const {
  const at::Tensor rows = checked_rows(x, fitted_columns(components_)).to(at::kDouble);
  const at::Tensor result = (rows - mean_).matmul(components_.t());
  if (!options_.whiten) return result;
  // Of rows that lie in fewer dimensions, the others would be divided by 0.
  return result / explained_.sqrt().clamp_min(std::numeric_limits<double>::epsilon());
}

at::Tensor PCA::inverse_transform(const at::Tensor& components) const {
  check_fitted(components_.defined());
  const at::Tensor along = checked_rows(components, n_components()).to(at::kDouble);
  return (options_.whiten ? along * explained_.sqrt() : along).matmul(components_) + mean_;
}

double PCA::score(const Table& table) const {
  const std::int64_t columns = fitted_columns(components_), rest = columns - n_components();
  check_columns(table, columns);
  if ((rest > 0 && noise_variance_ == 0) || explained_.min().item<double>() == 0) {
    fail(Fault::Usage,
         "the components explain all variance: rows beside them have no likelihood; fit fewer components");
  }
  // From products alone: of the covariance around the model's mean, what lies along each component and what beside.
  const Gram all = gram(table, options_.threads);
  const OneThread same_bits;
  const at::Tensor off = all.mean.slice(0, 0, columns) - mean_;
  const at::Tensor around = all.centred.slice(0, 0, columns).slice(1, 0, columns) / all.weight + at::outer(off, off);
  const at::Tensor along = (components_ * components_.matmul(around)).sum(1);
  double squares = (along / explained_).sum().item<double>();
  double volume = explained_.log().sum().item<double>();
  if (rest > 0) {
    squares += (around.diagonal().sum() - along.sum()).item<double>() / noise_variance_;
    volume += static_cast<double>(rest) * std::log(noise_variance_);
  }
  return -0.5 * (squares + volume + static_cast<double>(columns) * std::log(2 * std::numbers::pi));
}

ModelFile PCA::file(const Table& table) const {
  return file_for(table, kName,
                  {{"n_components", n_components()},
                   {"whiten", options_.whiten},
                   {"svd_solver", solver_},
                   {"random_state", options_.random_state},
                   {"noise_variance", noise_variance_},
                   {"n_samples", table.rows()}},
                  {{"components", components_},
                   {"mean", mean_},
                   {"explained_variance", explained_},
                   {"explained_variance_ratio", ratio_},
                   {"singular_values", singular_values_}});
}

namespace {

class Components final : public Predictor {
 public:
  explicit Components(const ModelFile& model) : pca_(PCA::from(model)) {}
  at::Tensor predict(const at::Tensor& x) const override { return pca_.transform(x); }
  std::vector<std::string> outputs() const override { return numbered("pc", pca_.n_components()); }

 private:
  PCA pca_;
};

const PredictorRegistry::Add registered{kName, "Principal components of rows",
                                        [](const ModelFile& model) { return std::make_unique<Components>(model); }};

}  // namespace
}  // namespace lockstep::ml
