// lockstep/ml/algorithms/dbscan.h
//
// Clusters of rows that lie densely, with the names and defaults of scikit-learn's DBSCAN
// (Euclidean distance) and exactly its labels, on any number of ranks and threads.
//
//   ml::DBSCAN dbscan({.eps = 0.3});
//   dbscan.fit(*ml::make_table(group, {.x = rows}));
//   auto labels = dbscan.labels();
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "lockstep/ml/table.h"

namespace lockstep::ml {

struct DBSCANOptions {
  double eps = 0.5;  // rows at most so far from each other are near
  std::int64_t min_samples =
      5;            // near a core row lie so many at least, or of weighted ones such a weight; itself counts
  int threads = 0;  // of this rank; 0: torch's
};

class DBSCAN {
 public:
  /// Fault::Usage on options that make no sense.
  explicit DBSCAN(DBSCANOptions options = {});

  /// A collective of the table's group. Fault::Data if a value is not finite.
  void fit(const Table& table);

  /// Of this rank's rows, in their order: the number of the cluster, from 0 on in the order of their first core rows;
  /// -1: none. A row that is near to core rows of several clusters, but no core row, belongs to the first. int64.
  const at::Tensor& labels() const noexcept { return labels_; }
  /// Of this rank's rows, in their order, whether it is a core row. bool.
  const at::Tensor& core() const noexcept { return core_; }
  /// Of all ranks.
  std::int64_t n_clusters() const noexcept { return n_clusters_; }

 private:
  DBSCANOptions options_;
  at::Tensor labels_, core_;
  std::int64_t n_clusters_ = 0;
};

}  // namespace lockstep::ml
