#include "lockstep/train/gradients.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/core/log.h"

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
    for (const auto& bucket : engine.buckets().all()) {
      at::Tensor gradients = bucket.gradients;
      gradients.clamp_(-clipping.value / scale, clipping.value / scale);
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
  constexpr std::size_t kNamed = 10;
  const auto end = unused.begin() + static_cast<std::ptrdiff_t>(std::min(kNamed, unused.size()));
  log().warn("backward does not reach {} of {} parameters: {}{}; freeze (model.frozen) or remove what is not needed",
             unused.size(), engine.parameters().size(), fmt::join(unused.begin(), end, ", "),
             unused.size() > kNamed ? fmt::format(" and {} more", unused.size() - kNamed) : "");
}

}  // namespace lockstep::train
