#include "lockstep/ml/check_rows.h"

#include <fmt/format.h>

#include "lockstep/core/error.h"

namespace lockstep::ml {

void check_fitted(bool fitted) {
  if (!fitted) fail(Fault::Usage, "the model is not fitted: call fit() first");
}

void check_can_go_on(bool knows_sums) {
  if (knows_sums) return;
  fail(Fault::Usage, "a model from a file has not the sums of its rows, which more rows are added to: call fit()");
}

std::int64_t fitted_columns(const at::Tensor& learned) {
  check_fitted(learned.defined());
  return learned.size(-1);
}

at::Tensor checked_rows(const at::Tensor& x, std::int64_t columns) {
  if (!x.defined() || x.dim() != 2) fail(Fault::Usage, "rows are a matrix, a row for each sample");
  if (x.size(1) != columns) fail(Fault::Usage, fmt::format("rows of {} columns for a model of {}", x.size(1), columns));
  return (x.scalar_type() == at::kFloat ? x : x.to(at::kDouble)).contiguous();
}

void check_columns(const Table& table, std::int64_t columns) {
  if (table.columns() == columns) return;
  fail(Fault::Usage, fmt::format("a table of {} columns for a model of {}", table.columns(), columns));
}

void check_targets(const Table& table, std::int64_t targets) {
  if (table.targets() == targets) return;
  fail(Fault::Usage, fmt::format("a table of {} targets for a model of {}", table.targets(), targets));
}

void check_weight(double weight) {
  if (!(weight > 0)) fail(Fault::Data, "the weights of all rows are 0; leave --weights out, or name another field");
}

void check_weight_of_scored(double weight) {
  if (!(weight > 0)) fail(Fault::Data, "the weights of all rows to be scored are 0");
}

}  // namespace lockstep::ml
