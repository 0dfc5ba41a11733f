#include "lockstep/train/gradients.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/core/grad_mode.h>

#include "lockstep/core/log.h"
#include "lockstep/core/text.h"

namespace lockstep::train {

double gradient_norm(const parallel::DataParallel& engine) {
  const at::NoGradGuard no_gradients;
  double squares = 0;
  // Not by bucket: which parameters share one may depend on who had samples in the first step.
  for (const auto& parameter : engine.parameters()) {
    const at::Tensor& gradient = parameter.tensor.grad();
    const auto norm = (gradient.is_sparse() ? gradient._values() : gradient).norm().item<double>();
    squares += norm * norm;
  }
  return std::sqrt(squares);
}

double clip(const parallel::DataParallel& engine, const Clipping& clipping, double scale) {
  const at::NoGradGuard no_gradients;
  if (clipping.value > 0) {
    for (std::size_t bucket = 0; bucket < engine.buckets().all().size(); ++bucket) {
      at::Tensor gradients = engine.buckets().all()[bucket].gradients;
      gradients.clamp_(-clipping.value / scale, clipping.value / scale);
      engine.buckets().gradients_to_device(bucket);  // where the norm is taken
    }
  }
  if (clipping.norm <= 0) return scale;
  constexpr double kNoDivisionByZero = 1e-6;  // PyTorch's
  return scale * std::min(1.0, clipping.norm / (scale * gradient_norm(engine) + kNoDivisionByZero));
}

bool all_finite(const parallel::DataParallel& engine, at::Tensor parallel::Bucket::* tensor) {
  const at::NoGradGuard no_gradients;
  const auto& buckets = engine.buckets().all();
  return std::all_of(buckets.begin(), buckets.end(), [tensor](const parallel::Bucket& bucket) {
    constexpr double kLargest = std::numeric_limits<double>::infinity();
    return std::isfinite((bucket.*tensor).norm(kLargest).item<double>());
  });
}

void warn_of_unused(const parallel::DataParallel& engine) {
  const auto unused = engine.unused();
  if (unused.empty()) return;
  log().warn("backward does not reach {} of {} parameters: {}; freeze (model.frozen) or remove what is not needed",
             unused.size(), engine.parameters().size(), list_some(unused, 10));
}

}  // namespace lockstep::train
