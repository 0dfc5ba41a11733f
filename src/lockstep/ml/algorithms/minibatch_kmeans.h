// lockstep/ml/algorithms/minibatch_kmeans.h
//
// K-means by small batches of rows that are drawn, with the names and defaults of
// scikit-learn's MiniBatchKMeans: for tables of which a few passes are too many.
// The centroids have the same bits on any number of ranks and threads.
//
//   ml::MiniBatchKMeans kmeans({.n_clusters = 10});
//   kmeans.fit(*ml::make_table(group, {.x = rows}));
//   while (auto more = next_rows()) kmeans.partial_fit(*ml::make_table(group, {.x = *more}));
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <ATen/core/Tensor.h>

#include "lockstep/ml/algorithms/kmeans_model.h"
#include "lockstep/ml/draw_rows.h"
#include "lockstep/ml/table.h"

namespace lockstep::ml {

struct MiniBatchKMeansOptions {
  std::int64_t n_clusters = 8;
  std::string init = "k-means++";  // "random", "k-means||"
  at::Tensor centers = {};         // given ones to begin with, [n_clusters, columns], instead of init
  std::int64_t n_init = 0;         // starts, of which the best counts; 0: 1, and of "random" 3
  std::int64_t init_size = 0;      // rows that are drawn for a start; 0: of 3 batches, at least of 3 * n_clusters
  std::int64_t batch_size = 1024;
  std::int64_t max_iter = 100;  // as many rows are drawn as so many passes would see
  double tol = 0;               // of the centroids' squared way in a batch, in mean variances of the columns; 0: none
  std::int64_t max_no_improvement = 10;  // batches without a better mean inertia that end it; 0: none do
  double reassignment_ratio = 0.01;      // of the largest cluster's rows: centroids of fewer go elsewhere now and then
  std::uint64_t random_state = 0;
  int threads = 0;  // of this rank; 0: torch's
};

/// After each batch.
struct MiniBatchStep {
  std::int64_t step = 0;
  std::int64_t steps = 0;  // at most
  double inertia = 0;      // of a row, the mean over the batch
  double smoothed = 0;     // the same over some batches
  bool last = false;
};

class MiniBatchKMeans : public KMeansModel {
 public:
  /// Fault::Usage on options that make no sense.
  explicit MiniBatchKMeans(MiniBatchKMeansOptions options = {});

  /// A collective of the table's group. Fault::Usage if it has fewer rows than clusters, Fault::Data if a value is not
  /// finite; this stays as it was then. The rows of a batch are as likely as their weights are large.
  void fit(const Table& table, const std::function<void(const MiniBatchStep&)>& see = {});
  /// Takes the rows of the table as one batch, the first time after it has chosen where to begin among them. A
  /// collective.
  void partial_fit(const Table& table);

  /// Batches so far.
  std::int64_t n_steps() const noexcept { return n_steps_; }

  /// For a file, with the names of the table that it was fitted to.
  ModelFile file(const Table& table) const;

 private:
  /// What fit() does, of one that has seen nothing.
  void learn(const Table& table, const std::function<void(const MiniBatchStep&)>& see);
  /// Forgets what was fitted; batches come from a table of so many rows.
  void restart(std::int64_t rows);
  /// The best of the starts. A collective.
  at::Tensor begin(const Table& table, const RowDraw& draw, std::int64_t starts) const;
  /// Moves the centroids towards the means of the batch, whose rows come from `table`. Returns its inertia before that.
  /// A collective.
  double step(const Table& batch, const Table& table);
  /// Centroids that hardly any row is near go to rows of the batch. A collective.
  void reassign(const Table& batch);
  /// Different rows of the batch, by number, that weigh something. A collective.
  std::vector<std::int64_t> drawn_from(const Table& batch, std::int64_t count) const;
  bool reassigns_now();
  /// To the centroids as they are. A collective. Fault::Data if a value is not finite.
  void measure(const Table& table);

  MiniBatchKMeansOptions options_;
  at::Tensor counts_;            // float64 [n_clusters]: the weight of the rows that each centroid is the mean of
  std::int64_t batch_size_ = 0;  // of a table of fewer rows these
  std::int64_t n_steps_ = 0;
  std::int64_t since_reassigned_ = 0;  // rows
};

}  // namespace lockstep::ml
