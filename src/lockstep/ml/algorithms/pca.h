// lockstep/ml/algorithms/pca.h
//
// Principal components, with the names and defaults of scikit-learn's PCA. The components
// have the same bits on any number of ranks and threads.
//
//   ml::PCA pca({.n_components = 20});
//   pca.fit(*ml::make_table(group, {.x = rows}));
//   auto reduced = pca.transform(rows);
#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

#include "lockstep/ml/model_file.h"
#include "lockstep/ml/table.h"

namespace lockstep::ml {

struct PCAOptions {
  double n_components = 0;  // 0: all; between 0 and 1: as many as explain that share of the variance
  bool whiten = false;      // components of variance 1
  /// "covariance_eigh": from one sweep of products; "full": through the triangular factor, where products would lose
  /// digits; "randomized": the first components nearly; "auto": whichever scikit-learn would take.
  std::string svd_solver = "auto";
  std::int64_t iterated_power = -1;  // sweeps of "randomized"; -1: 7 if few components are wanted, else 4
  std::int64_t n_oversamples = 10;
  std::uint64_t random_state = 0;
  int threads = 0;  // of this rank; 0: torch's
};

class PCA {
 public:
  /// Fault::Usage on options that make no sense.
  explicit PCA(PCAOptions options = {});
  /// A fitted one, from its file.
  static PCA from(const ModelFile& file);

  /// A collective. Weights count as repeated rows. Fault::Usage if more components are wanted than there are rows or
  /// columns, Fault::Data if a value is not finite.
  void fit(const Table& table);

  /// Of a fitted one, on every rank; float64. A component is a row of unit length, and its entry of the largest
  /// magnitude is above 0.
  const at::Tensor& components() const noexcept { return components_; }            // [n, columns]
  const at::Tensor& explained_variance() const noexcept { return explained_; }     // [n]
  const at::Tensor& explained_variance_ratio() const noexcept { return ratio_; }   // [n]
  const at::Tensor& singular_values() const noexcept { return singular_values_; }  // [n]
  const at::Tensor& mean() const noexcept { return mean_; }                        // [columns]
  std::int64_t n_components() const noexcept { return components_.size(0); }
  double noise_variance() const noexcept { return noise_variance_; }
  /// The one that was taken.
  const std::string& svd_solver() const noexcept { return solver_; }

  /// float64 [rows, n_components]. Of this rank alone, as is inverse_transform().
  at::Tensor transform(const at::Tensor& x) const;
  /// float64 [rows, columns].
  at::Tensor inverse_transform(const at::Tensor& components) const;
  /// The mean log-likelihood of the rows under the probabilistic model (Tipping and Bishop, 1999). A collective.
  double score(const Table& table) const;

  /// For a file, with the names of the table that it was fitted to.
  ModelFile file(const Table& table) const;

 private:
  PCAOptions options_;
  std::string solver_;
  at::Tensor components_, explained_, ratio_, singular_values_, mean_;
  double noise_variance_ = 0;
};

}  // namespace lockstep::ml
