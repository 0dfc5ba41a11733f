// lockstep/ml/algorithms/linear_regression.h
//
// Linear and ridge regression, with the names and defaults of scikit-learn's
// LinearRegression and Ridge. One sweep over the rows, whatever the number of penalties, and
// one more where columns nearly depend on each other.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/ml/linear_model.h"
#include "lockstep/ml/model_file.h"
#include "lockstep/ml/table.h"

namespace lockstep::ml {

struct LinearRegressionOptions {
  double alpha = 0;  // of the squared norm of the coefficients: above 0 it is ridge regression
  bool fit_intercept = true;
  /// "gram": from products of columns; "qr": from the triangular factor of the rows, in one more sweep that keeps the
  /// digits which products lose; "auto": "qr" where "gram" would have too few.
  std::string solver = "auto";
  int threads = 0;  // of this rank; 0: torch's
};

class LinearRegression {
 public:
  explicit LinearRegression(LinearRegressionOptions options = {});
  /// A fitted one, from its file.
  static LinearRegression from(const ModelFile& file);

  /// A collective. Warns of columns whose coefficients are not determined.
  void fit(const Table& table);
  /// One model for each of `alphas`, from the same sweeps. A collective.
  std::vector<LinearModel> path(const Table& table, const std::vector<double>& alphas) const;

  /// Of a fitted one; on every rank.
  const LinearModel& model() const noexcept { return model_; }
  /// "gram" or "qr", whichever it took.
  const std::string& solver() const noexcept { return solver_; }
  /// Names of columns whose coefficients are not determined: constant ones, and those that depend on others.
  const std::vector<std::string>& undetermined() const noexcept { return undetermined_; }
  at::Tensor predict(const at::Tensor& x) const { return model_.predict(x); }
  /// The share of the targets' variance that the model explains, the mean over targets. A collective.
  double score(const Table& table) const;
  /// The same of the rows that it was fitted to, where their products tell it without one more sweep: of "gram".
  std::optional<double> fitted_score() const noexcept { return fitted_score_; }

  /// For a file, with the names of the table that it was fitted to.
  ModelFile file(const Table& table) const;

 private:
  LinearRegressionOptions options_;
  LinearModel model_;
  std::string solver_;
  std::optional<double> fitted_score_;
  std::vector<std::string> undetermined_;
};

}  // namespace lockstep::ml
