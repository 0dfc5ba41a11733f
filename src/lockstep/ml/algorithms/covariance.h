// lockstep/ml/algorithms/covariance.h
//
// Covariance and correlation of the columns, from one sweep of products, with the names of
// scikit-learn's EmpiricalCovariance; ddof is as of numpy's cov.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

#include "lockstep/ml/gram.h"
#include "lockstep/ml/model_file.h"
#include "lockstep/ml/table.h"

namespace lockstep::ml {

struct EmpiricalCovarianceOptions {
  bool assume_centered = false;  // products around 0 instead of around the mean
  double ddof = 0;               // taken from the sum of weights: 0 as scikit-learn, 1 as numpy's cov
  int threads = 0;               // of this rank; 0: torch's
};

class EmpiricalCovariance {
 public:
  explicit EmpiricalCovariance(EmpiricalCovarianceOptions options = {});
  /// A fitted one, from its file.
  static EmpiricalCovariance from(const ModelFile& file);

  /// A collective. Fault::Data if a value is not finite.
  void fit(const Table& table);
  /// As if its rows stood behind those of the tables before. A collective. Fault::Usage if it is from a file.
  void partial_fit(const Table& table);

  /// Of a fitted one, on every rank; float64.
  const at::Tensor& covariance() const noexcept { return covariance_; }  // [columns, columns]
  const at::Tensor& location() const noexcept { return location_; }      // [columns]: the mean, or 0
  /// NaN for columns that are constant.
  at::Tensor correlation() const;
  /// The inverse of the covariance; of dependent columns the pseudo-inverse.
  at::Tensor precision() const;

  /// Squared distance of each row from the location, in units of the covariance, float64 [rows]. Of this rank alone.
  at::Tensor mahalanobis(const at::Tensor& x) const;
  /// The mean log-likelihood of the rows, if they are normal with this location and covariance. A collective.
  double score(const Table& table) const;

  /// For a file, with the names of the table that it was fitted to.
  ModelFile file(const Table& table) const;

 private:
  void become(const Gram& all);

  EmpiricalCovarianceOptions options_;
  std::optional<Gram> gram_;  // of all rows so far
  at::Tensor covariance_, location_;
};

/// Divides each product by the roots of its two squares, so that the diagonal is 1: of products or of a covariance.
/// NaN where a column's square is 0.
at::Tensor correlation_of(const at::Tensor& products);

}  // namespace lockstep::ml
