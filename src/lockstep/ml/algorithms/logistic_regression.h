// lockstep/ml/algorithms/logistic_regression.h
//
// Logistic regression of two classes or more (multinomial), with the names, defaults and
// objective of scikit-learn's LogisticRegression: C · Σ weight · loss + |coef|² / 2. The
// coefficients have the same bits on any number of ranks and threads.
//
//   ml::LogisticRegression regression({.C = 10});
//   regression.fit(*ml::make_table(group, {.x = rows, .targets = labels}));
//   auto said = regression.predict(rows);
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/ml/classes.h"
#include "lockstep/ml/linear_model.h"
#include "lockstep/ml/logistic_solver.h"
#include "lockstep/ml/model_file.h"
#include "lockstep/ml/table.h"

namespace lockstep::ml {

struct LogisticRegressionOptions {
  double C = 1;  // the inverse of the penalty; infinity: none
  bool fit_intercept = true;
  double tol = 1e-4;  // of the largest component of the gradient of the mean loss
  std::int64_t max_iter = 100;
  std::string class_weight = {};           // "balanced": all classes weigh alike
  std::vector<double> class_weights = {};  // or given ones, by class in ascending order
  std::string solver = "auto";             // see LogisticSearch
  int threads = 0;                         // of this rank; 0: torch's
};

class LogisticRegression {
 public:
  /// Fault::Usage on options that make no sense.
  explicit LogisticRegression(LogisticRegressionOptions options = {});
  /// A fitted one, from its file.
  static LogisticRegression from(const ModelFile& file);

  /// To the table's only target, each value of which is a class. A collective; `see` is called on rank 0. Warns if it
  /// did not converge and, without a penalty, of columns whose coefficients are not determined. If it fails, this stays
  /// as it was.
  void fit(const Table& table, const std::function<void(const LogisticPass&)>& see = {});

  /// Of a fitted one; on every rank.
  const Classes& classes() const noexcept { return classes_; }
  /// Of two classes one row, which is for the second, else a row for each class.
  const LinearModel& model() const noexcept { return model_; }
  std::int64_t n_iter() const noexcept { return n_iter_; }
  bool converged() const noexcept { return converged_; }
  /// C · Σ weight · loss + |coef|² / 2; without a penalty the first sum alone.
  double objective() const noexcept { return objective_; }
  /// Names of columns whose coefficients are not determined, where there is no penalty.
  const std::vector<std::string>& undetermined() const noexcept { return undetermined_; }

  /// Margins: float64 [rows] of two classes, else [rows, classes]. Of this rank alone, as are the next ones.
  at::Tensor decision_function(const at::Tensor& x) const;
  /// The value of the likeliest class, [rows].
  at::Tensor predict(const at::Tensor& x) const;
  /// float64 [rows, classes].
  at::Tensor predict_proba(const at::Tensor& x) const;
  at::Tensor predict_log_proba(const at::Tensor& x) const;
  /// The share of rows, by weight, whose class it finds. A collective.
  double score(const Table& table) const;

  /// For a file, with the names of the table that it was fitted to.
  ModelFile file(const Table& table) const;

 private:
  /// What fit() does, of one that has seen nothing.
  void learn(const Table& table, const std::function<void(const LogisticPass&)>& see);
  /// Where several coefficients fit as well, and says so.
  void take_least_norm(const Table& table);

  LogisticRegressionOptions options_;
  Classes classes_;
  LinearModel model_;
  std::vector<std::string> undetermined_;
  std::int64_t n_iter_ = 0;
  bool converged_ = false;
  double objective_ = 0;
};

}  // namespace lockstep::ml
