// lockstep/ml/algorithms/basic_statistics.h
//
// Moments and extremes of columns as an estimator, which takes tables one after another.
// moments() gives the same of one table, and says what is missing instead of refusing it.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

#include "lockstep/ml/moments.h"
#include "lockstep/ml/table.h"

namespace lockstep::ml {

struct BasicStatisticsOptions {
  double ddof = 0;  // of the variance: 0 is that of these rows, 1 an estimate for more of them
  int threads = 0;  // of this rank; 0: torch's
};

class BasicStatistics {
 public:
  explicit BasicStatistics(BasicStatisticsOptions options = {});

  /// A collective. Fault::Data if a value is not finite.
  void fit(const Table& table);
  /// As if its rows stood behind those of the tables before. A collective.
  void partial_fit(const Table& table);

  /// Of a fitted one, on every rank; float64 [columns] each.
  const at::Tensor& count() const { return found().count; }
  const at::Tensor& sum() const { return found().sum; }
  const at::Tensor& mean() const { return found().mean; }
  at::Tensor variance() const { return found().variance(options_.ddof); }
  const at::Tensor& min() const { return found().min; }
  const at::Tensor& max() const { return found().max; }

 private:
  /// Fault::Usage before a fit.
  const Moments& found() const;

  BasicStatisticsOptions options_;
  std::optional<Moments> moments_;
};

}  // namespace lockstep::ml
