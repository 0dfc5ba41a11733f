#include "lockstep/train/metrics/class_counts.h"

#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/bincount.h>

namespace lockstep::train {

at::Tensor class_counts(const Score& score) {
  const std::int64_t classes = score.outputs.size(1);
  return at::bincount(score.targets * classes + score.outputs.argmax(1), {}, classes * classes).to(at::kDouble);
}

at::Tensor as_matrix(const at::Tensor& counts) {
  const auto classes = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(counts.numel()))));
  return counts.view({classes, classes});
}

}  // namespace lockstep::train
