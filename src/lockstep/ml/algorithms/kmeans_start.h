// lockstep/ml/algorithms/kmeans_start.h
//
// Where K-means begins. A start is a function of the rows and of chance, which is keyed
// by row numbers: the same on any number of ranks.
#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

#include "lockstep/core/registry.h"
#include "lockstep/ml/table.h"

namespace lockstep::ml {

/// float64 [clusters, columns] on every rank; a collective. `seed` differs between starts.
using KMeansStarts = Registry<at::Tensor(const Table& table, std::int64_t clusters, std::uint64_t seed, int threads)>;

/// Given centroids, where they are defined, else a start by its name.
struct KMeansBeginning {
  std::string init;
  at::Tensor centers;

  /// Fault::Usage if there is no such start.
  void check() const;
  /// Fault::Usage if the table has fewer rows than clusters, or if given centroids are not so many of its columns.
  void check_for(const Table& table, std::int64_t clusters) const;
  /// How many starts `n_init` = 0 means: one, and `of_random` of "random". Given centroids have one alone.
  std::int64_t starts(std::int64_t n_init, std::int64_t of_random) const;
  /// A copy of its own on every rank. A collective.
  at::Tensor operator()(const Table& table, std::int64_t clusters, std::uint64_t seed, int threads) const;
  /// What a model file calls it.
  std::string name() const { return centers.defined() ? "given" : init; }
};

}  // namespace lockstep::ml
