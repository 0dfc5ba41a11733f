// lockstep/ml/algorithms/kmeans.h
//
// K-means by Lloyd's algorithm, with the names and defaults of scikit-learn's KMeans.
// The centroids have the same bits on any number of ranks and threads.
//
//   ml::KMeans kmeans({.n_clusters = 10});
//   kmeans.fit(*ml::make_table(group, {.x = rows}));
//   auto labels = kmeans.predict(rows);
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <ATen/core/Tensor.h>

#include "lockstep/ml/algorithms/kmeans_model.h"
#include "lockstep/ml/table.h"

namespace lockstep::ml {

struct KMeansOptions {
  std::int64_t n_clusters = 8;
  std::string init = "k-means++";  // "random", "k-means||"
  at::Tensor centers = {};         // given ones to begin with, [n_clusters, columns], instead of init
  std::int64_t n_init = 0;         // starts, of which the best counts; 0: 1, and of "random" 10
  std::int64_t max_iter = 300;
  double tol = 1e-4;  // of the centroids' squared way, in mean variances of the columns
  std::uint64_t random_state = 0;
  /// What becomes of a centroid without rows: "farthest" moves it to the row that is farthest from its own, "keep"
  /// leaves it where it is, "error" ends.
  std::string empty = "farthest";
  int threads = 0;  // of this rank; 0: torch's
};

/// After each pass over the rows.
struct KMeansPass {
  std::int64_t start = 0;  // from 0 on
  std::int64_t starts = 1;
  std::int64_t iteration = 0;
  std::int64_t changed = 0;  // labels
  double shift = 0;          // squared way of all centroids together
  bool last = false;         // of the start
};

class KMeans : public KMeansModel {
 public:
  /// Fault::Usage on options that make no sense.
  explicit KMeans(KMeansOptions options = {});

  /// A collective of the table's group. Fault::Usage if it has fewer rows than clusters, Fault::Data if a value is not
  /// finite; this stays as it was then.
  void fit(const Table& table, const std::function<void(const KMeansPass&)>& see = {});

  /// The nearest centroid of each of this rank's rows of the table that it was fitted to, int32 [own rows].
  const at::Tensor& labels() const noexcept { return labels_; }

  /// For a file, with the names of the table that it was fitted to.
  ModelFile file(const Table& table) const;

 private:
  /// What fit() does, of one that has seen nothing.
  void learn(const Table& table, const std::function<void(const KMeansPass&)>& see);

  KMeansOptions options_;
  at::Tensor labels_;
};

}  // namespace lockstep::ml
