#include "lockstep/ml/algorithms/basic_statistics.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/ml/check_option.h"
#include "lockstep/ml/check_rows.h"

namespace lockstep::ml {

BasicStatistics::BasicStatistics(BasicStatisticsOptions options) : options_(options) {
  check_from_zero_on(options_.ddof, "ddof");
  if (options_.threads == 0) options_.threads = at::get_num_threads();
}

const Moments& BasicStatistics::found() const {
  check_fitted(moments_.has_value());
  return *moments_;
}

void BasicStatistics::fit(const Table& table) { moments_ = finite_moments(table, options_.threads); }

void BasicStatistics::partial_fit(const Table& table) {
  if (moments_ && moments_->count.numel() != table.columns()) {
    fail(Fault::Usage, fmt::format("a table of {} columns after one of {}", table.columns(), moments_->count.numel()));
  }
  const Moments more = finite_moments(table, options_.threads);
  moments_ = moments_ ? both(*moments_, more) : more;
}

}  // namespace lockstep::ml
