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

}  // namespace lockstep::ml
