#include "lockstep/train/metrics/hit_share.h"

#include <algorithm>
#include <tuple>

#include <ATen/ops/tensor.h>

namespace lockstep::train {

at::Tensor HitShare::sums(const Score& score) const {
  const std::int64_t most = std::min(most_, score.outputs.size(1));
  const at::Tensor best =
      most == 1 ? score.outputs.argmax(1, true) : std::get<1>(score.outputs.topk(most, 1, true, false));
  const auto right = best.eq(score.targets.unsqueeze(1)).sum().item<double>();
  return at::tensor({right, static_cast<double>(score.count)}, at::kDouble);
}

Figures HitShare::figures(const at::Tensor& sums) const {
  return {{name_, sums[0].item<double>() / sums[1].item<double>()}};
}

}  // namespace lockstep::train
