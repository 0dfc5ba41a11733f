// lockstep/ml/algorithms/kmeans_model.h
//
// Centroids and what they say of rows: what K-means of every kind finds.
#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

#include "lockstep/ml/model_file.h"
#include "lockstep/ml/table.h"

namespace lockstep::ml {

class KMeansModel {
 public:
  /// A fitted one, from its file.
  static KMeansModel from(const ModelFile& file);

  /// Of a fitted one; on every rank. float64 [n_clusters, columns].
  const at::Tensor& cluster_centers() const noexcept { return centers_; }
  /// The sum of the rows' weighted squared distances to their centroids.
  double inertia() const noexcept { return inertia_; }
  std::int64_t n_iter() const noexcept { return n_iter_; }

  /// The nearest centroid of each row, int32 [rows]. Of this rank alone, as is transform(). Fault::Usage, as of the
  /// next ones, on other columns and before a fit.
  at::Tensor predict(const at::Tensor& x) const;
  /// The distance of each row to each centroid, float64 [rows, n_clusters].
  at::Tensor transform(const at::Tensor& x) const;
  /// Minus the inertia of the rows. A collective; threads are of this rank, 0: torch's.
  double score(const Table& table, int threads = 0) const;

 protected:
  KMeansModel() = default;
  /// For a file, with the names of the table that it was fitted to and what it was made with.
  ModelFile file_with(const Table& table, const nlohmann::json& parameters) const;

  at::Tensor centers_;
  double inertia_ = 0;
  std::int64_t n_iter_ = 0;
};

}  // namespace lockstep::ml
