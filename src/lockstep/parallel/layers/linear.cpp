#include "lockstep/parallel/layers/linear.h"

#include <cmath>
#include <optional>

#include <ATen/TensorOperators.h>

#include "lockstep/parallel/layers/column_product.h"
#include "lockstep/parallel/layers/compute_type.h"
#include "lockstep/parallel/tensor_parallel.h"
#include "lockstep/parallel/time_slices.h"

namespace lockstep::parallel {

LinearImpl::LinearImpl(std::int64_t inputs, std::int64_t outputs, bool with_bias, std::int64_t bands) : bands_(bands) {
  const auto bound = InitialValues::uniform(1 / std::sqrt(static_cast<double>(inputs)));
  weight = declare("weight", {outputs, inputs}, bound);
  if (with_bias) bias = declare("bias", {outputs}, bound);
}

void LinearImpl::split_by(const std::string& how) {
  sums_ = how.starts_with("row");
  over_time_ = how.ends_with("+time");
  const Cut by_outputs{.dim = 0, .bands = bands_, .index = ranks()->rank(), .count = ranks()->size()};
  const Cut by_inputs{.dim = 1, .bands = 1, .index = ranks()->rank(), .count = ranks()->size()};
  cut(weight, sums_ ? by_inputs : by_outputs);
  if (bias.defined() && !sums_) cut(bias, by_outputs);
  if (bias.defined() && sums_ && over_time_) gets_partial_gradient(bias);
}

at::Tensor LinearImpl::forward(const at::Tensor& input) { return of_made({input}); }

at::Tensor LinearImpl::of_made(const MadeInput& made) {
  const auto maybe_bias = bias.defined() && !sums_ ? std::optional(bias) : std::nullopt;
  const at::Tensor output = column_product(made, weight, maybe_bias, outputs_over(), over_time_);
  if (!sums_) return output;
  const at::Tensor sum = over_time_ ? sum_to_slices(output, *ranks()) : sum_of_ranks(output, *ranks());
  return bias.defined() ? sum + ComputeType::of(weight).cast(bias) : sum;
}

}  // namespace lockstep::parallel
