// lockstep/ml/algorithms/svd.h
//
// Singular value decompositions of rows as they are, without taking off their mean: the
// largest values with the names and defaults of scikit-learn's TruncatedSVD, or all of them.
// What is fitted has the same bits on any number of ranks and threads.
#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

#include "lockstep/ml/model_file.h"
#include "lockstep/ml/singular_values.h"
#include "lockstep/ml/table.h"

namespace lockstep::ml {

struct TruncatedSVDOptions {
  std::int64_t n_components = 2;
  /// "randomized": by a random subspace; "exact": through the triangular factor of the rows.
  std::string algorithm = "randomized";
  std::int64_t n_iter = 5;  // sweeps of "randomized"
  std::int64_t n_oversamples = 10;
  std::uint64_t random_state = 0;
  int threads = 0;  // of this rank; 0: torch's
};

class TruncatedSVD {
 public:
  /// Fault::Usage on options that make no sense.
  explicit TruncatedSVD(TruncatedSVDOptions options = {});
  /// A fitted one, from its file.
  static TruncatedSVD from(const ModelFile& file);

  /// A collective. Weights count as repeated rows. Fault::Usage if more components are wanted than there are rows or
  /// columns, Fault::Data if a value is not finite.
  void fit(const Table& table);

  /// Of a fitted one, on every rank; float64. A component is a row of unit length, and its entry of the largest
  /// magnitude is above 0.
  const at::Tensor& components() const noexcept { return found_.vectors; }        // [n_components, columns]
  const at::Tensor& singular_values() const noexcept { return found_.values; }    // [n_components]
  const at::Tensor& explained_variance() const noexcept { return explained_; }    // of the transformed rows
  const at::Tensor& explained_variance_ratio() const noexcept { return ratio_; }  // of the variance of all columns

  /// float64 [rows, n_components]. Of this rank alone, as is inverse_transform().
  at::Tensor transform(const at::Tensor& x) const;
  at::Tensor inverse_transform(const at::Tensor& components) const;

  /// For a file, with the names of the table that it was fitted to.
  ModelFile file(const Table& table) const;

 private:
  TruncatedSVDOptions options_;
  SingularValues found_;
  at::Tensor explained_, ratio_;
};

struct SVDOptions {
  int threads = 0;  // of this rank; 0: torch's
};

/// x = u · diag(s) · vh, with as many singular values as there are rows or columns, whichever are fewer.
class SVD {
 public:
  explicit SVD(SVDOptions options = {});
  /// A fitted one, from its file.
  static SVD from(const ModelFile& file);

  /// A collective. Fault::Data if a value is not finite.
  void fit(const Table& table);

  /// Of a fitted one, on every rank; float64.
  const at::Tensor& singular_values() const noexcept { return found_.values; }  // [n], the largest first
  const at::Tensor& vh() const noexcept { return found_.vectors; }              // [n, columns]
  /// Rows of u, float64 [rows, n]: 0 along vectors whose singular value is but rounding. Of this rank alone.
  at::Tensor transform(const at::Tensor& x) const;

  /// For a file, with the names of the table that it was fitted to.
  ModelFile file(const Table& table) const;

 private:
  SVDOptions options_;
  SingularValues found_;
};

}  // namespace lockstep::ml
