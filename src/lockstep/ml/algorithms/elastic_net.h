// lockstep/ml/algorithms/elastic_net.h
//
// Lasso and elastic net with the names, defaults and objective of scikit-learn's ElasticNet:
// the mean square / 2 + alpha · (l1_ratio · Σ|coef| + (1 - l1_ratio) · |coef|² / 2); with an
// l1_ratio of 1 it is the lasso. Each target by itself. One sweep over the rows, whatever
// the number of penalties.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/ml/gram.h"
#include "lockstep/ml/linear_model.h"
#include "lockstep/ml/model_file.h"
#include "lockstep/ml/table.h"

namespace lockstep::ml {

struct ElasticNetOptions {
  double alpha = 1;
  double l1_ratio = 0.5;
  bool fit_intercept = true;
  std::int64_t max_iter = 1000;
  double tol = 1e-4;  // of the duality gap, in squares of the target
  bool positive = false;
  int threads = 0;  // of this rank; 0: torch's
};

/// The coefficients of one penalty.
struct ElasticNetFit {
  LinearModel model;
  std::vector<std::int64_t> n_iter;  // by target, as are the others
  std::vector<double> dual_gap;
  bool converged = true;  // all targets
};

/// For each of `alphas` from products alone; each begins where the next larger one ended.
std::vector<ElasticNetFit> elastic_net_path(const Gram& gram, std::int64_t columns, const ElasticNetOptions& options,
                                            const std::vector<double>& alphas);
/// From the least alpha of which all coefficients are 0 down to `eps` times it, in equal ratios.
std::vector<double> alpha_grid(const Gram& gram, std::int64_t columns, const ElasticNetOptions& options,
                               std::int64_t n_alphas = 100, double eps = 1e-3);

class ElasticNet {
 public:
  /// Fault::Usage on options that make no sense.
  explicit ElasticNet(ElasticNetOptions options = {});
  /// A fitted one, from its file.
  static ElasticNet from(const ModelFile& file);

  /// A collective. Warns if it did not converge.
  void fit(const Table& table);
  /// One for each of `alphas`, from one sweep. A collective.
  std::vector<ElasticNetFit> path(const Table& table, const std::vector<double>& alphas) const;

  /// Of a fitted one; on every rank.
  const LinearModel& model() const noexcept { return fit_.model; }
  /// By target.
  const std::vector<std::int64_t>& n_iter() const noexcept { return fit_.n_iter; }
  const std::vector<double>& dual_gap() const noexcept { return fit_.dual_gap; }
  at::Tensor predict(const at::Tensor& x) const { return fit_.model.predict(x); }
  /// The share of the targets' variance that the model explains, the mean over targets. A collective.
  double score(const Table& table) const;
  /// The same of the rows that it was fitted to, without one more sweep.
  double fitted_score() const noexcept { return fitted_score_; }

  /// For a file, with the names of the table that it was fitted to.
  ModelFile file(const Table& table) const;

 private:
  ElasticNetOptions options_;
  ElasticNetFit fit_;
  double fitted_score_ = 0;
};

}  // namespace lockstep::ml
