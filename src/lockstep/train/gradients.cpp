#include "lockstep/train/gradients.h"

#include <algorithm>

#include <ATen/core/grad_mode.h>

#include "lockstep/core/log.h"
#include "lockstep/core/text.h"

namespace lockstep::train {

double clip_(const ModelParts& model, const Clipping& clipping, double scale) {
  const at::NoGradGuard no_gradients;
  const parallel::GradientEngine& engine = model.engine();
  if (clipping.value > 0) {
    for (std::size_t bucket = 0; bucket < engine.buckets().all().size(); ++bucket) {
      at::Tensor gradients = engine.buckets().all()[bucket].gradients;
      gradients.clamp_(-clipping.value / scale, clipping.value / scale);
      engine.buckets().gradients_to_device(bucket);  // where the norm is taken
    }
  }
  if (clipping.norm <= 0) return scale;
  constexpr double kNoDivisionByZero = 1e-6;  // PyTorch's
  return scale * std::min(1.0, clipping.norm / (scale * model.gradient_norm() + kNoDivisionByZero));
}

void warn_of_unused(const parallel::GradientEngine& engine) {
  const auto unused = engine.unused();
  if (unused.empty()) return;
  log().warn("backward does not reach {} of {} parameters: {}; freeze (model.frozen) or remove what is not needed",
             unused.size(), engine.parameters().size(), list_some(unused, 10));
}

}  // namespace lockstep::train
