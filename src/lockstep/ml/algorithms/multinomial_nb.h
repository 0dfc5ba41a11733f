// lockstep/ml/algorithms/multinomial_nb.h
//
// Naive Bayes of counts, with the names and defaults of scikit-learn's MultinomialNB. One
// sweep; the model has the same bits on any number of ranks and threads.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/ml/check_rows.h"
#include "lockstep/ml/model_file.h"
#include "lockstep/ml/naive_bayes.h"
#include "lockstep/ml/table.h"

namespace lockstep::ml {

struct MultinomialNBOptions {
  double alpha = 1;                      // what is added to each sum of counts
  bool fit_prior = true;                 // false: all classes are equally likely
  std::vector<double> class_prior = {};  // or given ones, of the classes in ascending order
  int threads = 0;                       // of this rank; 0: torch's
};

class MultinomialNB final : public NaiveBayes {
 public:
  /// Fault::Usage on options that make no sense.
  explicit MultinomialNB(MultinomialNBOptions options = {});
  /// A fitted one, from its file.
  static MultinomialNB from(const ModelFile& file);

  /// A collective, as is partial_fit(). Fault::Data if a value is below 0.
  void fit(const Table& table) { update(table, {}, true); }
  /// To more rows; after several it is as if it had been fitted to all of them. Classes, which the first call may name
  /// (else they are those of its rows), stay as they are. Fault::Usage if it is from a file.
  void partial_fit(const Table& table, const std::vector<double>& classes = {}) { update(table, classes, false); }

  /// Of a fitted one; on every rank. float64 [classes, columns].
  const at::Tensor& feature_count() const noexcept { return moments_.sum; }
  const at::Tensor& feature_log_prob() const noexcept { return feature_log_prob_; }
  /// float64 [classes].
  const at::Tensor& class_log_prior() const noexcept { return class_log_prior_; }

  /// For a file, with the names of the table that it was fitted to.
  ModelFile file(const Table& table) const;

 private:
  void update(const Table& table, const std::vector<double>& classes, bool anew);
  void joint(const double* row, double* result) const override;
  std::int64_t columns() const override { return fitted_columns(feature_log_prob_); }

  MultinomialNBOptions options_;
  at::Tensor feature_log_prob_, class_log_prior_;
};

}  // namespace lockstep::ml
