// lockstep/ml/moments.h
//
// Counts, means, variances and extremes of the columns of a table, in one sweep. Values that
// are not finite are counted and left out, and so are rows of weight 0.
#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/ml/fold.h"
#include "lockstep/ml/table.h"

namespace lockstep::ml {

/// float64 [columns] each. Of a column without any value all but the counts are NaN.
struct Moments {
  double weight = 0;  // the sum of all rows' weights

  at::Tensor count;     // values that are finite
  at::Tensor missing;   // NaN
  at::Tensor infinite;  // others
  at::Tensor weights;   // the sum of the weights of values that are finite
  at::Tensor sum;
  at::Tensor mean;
  at::Tensor squares;  // the sum of weight · (x - mean)²
  at::Tensor min;
  at::Tensor max;

  /// `ddof` is taken from the sum of weights: 0 gives the variance of these rows, 1 an estimate for more of them. NaN
  /// where nothing is left then.
  at::Tensor variance(double ddof = 0) const;
};

/// A collective; the same bits on any number of ranks and threads.
Moments moments(const Table& table, int threads);
/// The same of tables in which nothing is missing: Fault::Data if a value is not finite.
Moments finite_moments(const Table& table, int threads);

/// The same as a part of a sweep: see fold_all(). The table must live as long.
Fold moments_fold(const Table& table);
Moments moments_of(const at::Tensor& folded);
/// Of two tables with the same columns together.
Moments both(const Moments& one, const Moments& other);

/// Of all columns, by which tolerances are scaled: as scikit-learn's it knows no weights, and rows that weigh nothing
/// count, too.
double mean_variance(const Table& table, int threads);

}  // namespace lockstep::ml
