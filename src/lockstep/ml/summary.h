// lockstep/ml/summary.h
//
// What there is to know of a table before anything is fitted to it, in one sweep: counts,
// moments, extremes and quantiles of each column, and the products of columns over the rows in
// which nothing is missing. Missing values are counted, they are no error.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/ml/gram.h"
#include "lockstep/ml/moments.h"
#include "lockstep/ml/table.h"

namespace lockstep::ml {

struct SummaryOptions {
  std::vector<double> quantiles = {0.25, 0.5, 0.75};
  bool products = true;  // of all pairs of columns: the only part whose cost grows with their square
  int threads = 0;       // of this rank; 0: torch's
};

struct Summary {
  Moments moments;
  at::Tensor quantiles;       // float64 [quantiles, columns]: see quantiles.h
  std::optional<Gram> gram;   // of complete rows; none if there are none, or products are not wanted
  std::int64_t complete = 0;  // rows, of a weight above 0, in which all values are finite, if products are wanted
};

/// A collective; the same bits on any number of ranks and threads. Targets are left out.
Summary summary(const Table& table, const SummaryOptions& options = {});

}  // namespace lockstep::ml
