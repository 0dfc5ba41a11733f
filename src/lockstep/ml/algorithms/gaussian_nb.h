// lockstep/ml/algorithms/gaussian_nb.h
//
// Naive Bayes of normal columns, with the names and defaults of scikit-learn's GaussianNB.
// One sweep; the model has the same bits on any number of ranks and threads.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/ml/check_rows.h"
#include "lockstep/ml/model_file.h"
#include "lockstep/ml/naive_bayes.h"
#include "lockstep/ml/table.h"

namespace lockstep::ml {

struct GaussianNBOptions {
  std::vector<double> priors = {};  // of the classes in ascending order; empty: their shares of the rows
  double var_smoothing = 1e-9;      // of the largest variance of a column: what is added to all variances
  int threads = 0;                  // of this rank; 0: torch's
};

class GaussianNB final : public NaiveBayes {
 public:
  /// Fault::Usage on options that make no sense.
  explicit GaussianNB(GaussianNBOptions options = {});
  /// A fitted one, from its file.
  static GaussianNB from(const ModelFile& file);

  /// A collective, as is partial_fit().
  void fit(const Table& table) { update(table, {}, true); }
  /// To more rows; after several it is as if it had been fitted to all of them. Classes, which the first call may name
  /// (else they are those of its rows), stay as they are. Fault::Usage if it is from a file.
  void partial_fit(const Table& table, const std::vector<double>& classes = {}) { update(table, classes, false); }

  /// Of a fitted one; on every rank. float64 [classes, columns].
  const at::Tensor& theta() const noexcept { return moments_.mean; }
  const at::Tensor& var() const noexcept { return var_; }
  /// float64 [classes].
  const at::Tensor& class_prior() const noexcept { return class_prior_; }
  /// What was added to variances.
  double epsilon() const noexcept { return epsilon_; }

  /// For a file, with the names of the table that it was fitted to.
  ModelFile file(const Table& table) const;

 private:
  void update(const Table& table, const std::vector<double>& classes, bool anew);
  /// Fault::Data naming a column whose values do not differ in a class that has rows, so that no normal fits.
  void check_variances(const Table& table, const Seen& seen, const at::Tensor& var) const;
  /// What joint() needs, of var_ and class_prior_.
  void prepare();
  void joint(const double* row, double* result) const override;
  std::int64_t columns() const override { return fitted_columns(var_); }

  GaussianNBOptions options_;
  at::Tensor var_, class_prior_;
  double epsilon_ = 0;
  at::Tensor constant_, precision_;  // [classes], [classes, columns]
};

}  // namespace lockstep::ml
