// lockstep/ml/algorithms/neighbors.h
//
// The nearest rows by brute force, and classes and values by their vote, with the names
// and defaults of scikit-learn's NearestNeighbors, KNeighborsClassifier and
// KNeighborsRegressor (Euclidean distance). Rows stay on the ranks that have them: queries
// of every rank travel to all of them, and what each finds travels back. Nothing depends on
// the number of ranks or threads: neighbours are those of exact distances in float64, of
// equally far ones those of the lowest row numbers.
//
//   ml::KNeighborsClassifier knn({.n_neighbors = 3});
//   knn.fit(ml::make_table(group, {.x = rows, .targets = labels}));
//   auto said = knn.predict(queries);
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/ml/classes.h"
#include "lockstep/ml/fitted_rows.h"
#include "lockstep/ml/model_file.h"
#include "lockstep/ml/table.h"

namespace lockstep::ml {

struct NeighborsOptions {
  std::int64_t n_neighbors = 5;
  std::string weights = "uniform";  // of votes; "distance": the nearer the more
  int threads = 0;                  // of this rank; 0: torch's
};

class NearestNeighbors {
 public:
  /// Fault::Usage on options that make no sense.
  explicit NearestNeighbors(NeighborsOptions options = {});

  /// A collective of the table's group; the table stays as long as this. Fault::Usage if it has fewer rows than
  /// n_neighbors, Fault::Data if a value is not finite; this stays as it was then.
  void fit(std::shared_ptr<const Table> table);

  /// Of this rank's queries [queries, columns], which are taken in the type of the rows. A collective, as all that
  /// follows, unless it was read from a file. Fault::Data if a value is not finite.
  Neighbors kneighbors(const at::Tensor& x) const;

 protected:
  void read(const ModelFile& file);
  /// Fault::Usage before a fit.
  const FittedRows& fitted_rows() const;
  /// The rows, on rank 0. A collective.
  ModelFile file_of(const char* algorithm) const;
  /// The weight of each vote, float64 [queries, n_neighbors].
  at::Tensor votes_of(const Neighbors& neighbors) const;

  NeighborsOptions options_;
  std::shared_ptr<const FittedRows> rows_;
};

class KNeighborsClassifier : public NearestNeighbors {
 public:
  using NearestNeighbors::NearestNeighbors;
  static KNeighborsClassifier from(const ModelFile& file);

  /// Fault::Usage if the table's target is none of classes.
  void fit(std::shared_ptr<const Table> table);
  const Classes& classes() const noexcept { return classes_; }

  /// The class with the most votes, of equal ones the lowest: the value, int64 [queries] if all classes are whole
  /// numbers, else float64.
  at::Tensor predict(const at::Tensor& x) const;
  /// Shares of the votes, float64 [queries, classes].
  at::Tensor predict_proba(const at::Tensor& x) const;
  /// The share of the rows, by weight, that get the class of their target.
  double score(const Table& table) const;
  /// The same where predict() has said it of this rank's rows already.
  double score_of(const Table& table, const at::Tensor& said) const;

  /// Holds the rows: on rank 0, for a file.
  ModelFile file() const;

 private:
  /// The sums of votes, float64 [queries, classes].
  at::Tensor votes_for(const at::Tensor& x) const;

  Classes classes_;
};

class KNeighborsRegressor : public NearestNeighbors {
 public:
  using NearestNeighbors::NearestNeighbors;
  static KNeighborsRegressor from(const ModelFile& file);

  /// Fault::Usage if the table has no target.
  void fit(std::shared_ptr<const Table> table);

  /// The mean of the neighbours' targets, float64 [queries, targets].
  at::Tensor predict(const at::Tensor& x) const;
  /// The share of the targets' variance that is explained, the mean over targets.
  double score(const Table& table) const;
  /// The same where predict() has said it of this rank's rows already.
  double score_of(const Table& table, const at::Tensor& said) const;

  /// Holds the rows: on rank 0, for a file.
  ModelFile file() const;
  const std::vector<std::string>& target_names() const noexcept { return target_names_; }

 private:
  std::vector<std::string> target_names_;
};

}  // namespace lockstep::ml
