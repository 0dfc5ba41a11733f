// lockstep/ml/algorithms/labelled_rows.h
//
// The rows of a table, each with the number of its nearest centroid: the sweeps over
// rows that K-means of every kind consists of.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/ml/table.h"

namespace lockstep::ml {

/// What a sweep gives, on every rank.
struct ClusterTotals {
  at::Tensor values;  // float64: sums [clusters, stride], weights [clusters], then the two numbers below
  std::int64_t clusters = 0;
  std::int64_t stride = 0;

  /// The weighted sum of a cluster's rows.
  double* sum(std::int64_t cluster) const { return values.mutable_data_ptr<double>() + cluster * stride; }
  double* weights() const { return sum(clusters); }
  /// Labels.
  std::int64_t changed() const { return static_cast<std::int64_t>(weights()[clusters]); }
  /// The sum of weighted squared distances to the centroids that the sweep was given.
  double inertia() const { return weights()[clusters + 1]; }
  /// Not if a value of a row is not: it shows in the sum of its cluster.
  bool finite() const;
};

/// Centroids are float64 [clusters, columns], the same on every rank. What has no word of its rank is a collective, and
/// has the same bits on any number of ranks and threads.
class LabelledRows {
 public:
  LabelledRows(const Table& table, int threads);

  /// Gives each row the label of its nearest centroid and sums rows by label; the inertia only if asked, as it costs.
  ClusterTotals sweep(const at::Tensor& centers, bool with_inertia);
  /// By the labels that are there.
  double inertia(const at::Tensor& centers) const;
  /// After each row got the label of its nearest centroid.
  double nearest_inertia(const at::Tensor& centers);

  /// Of this rank's rows: a copy, int32 [own rows].
  at::Tensor labels() const;
  /// Of the rows of one of this rank's blocks.
  std::int32_t* labels_of(std::int64_t block) { return labels_.data() + table_.own_place(block); }
  const std::int32_t* labels_of(std::int64_t block) const { return labels_.data() + table_.own_place(block); }
  /// To the centroid of its label, of each of them.
  std::vector<double> squared_distances_of(const Block& block, std::int64_t number, const at::Tensor& centers) const;

 private:
  /// `label` of each block, then the inertia by its labels.
  double inertia_after(const at::Tensor& centers,
                       const std::function<void(const Block& block, std::int64_t number)>& label) const;
  double weighted_distances(const Block& block, std::int64_t number, const at::Tensor& centers) const;

  const Table& table_;
  int threads_;
  std::vector<std::int32_t> labels_;  // by row of this rank; -1 at first
};

}  // namespace lockstep::ml
