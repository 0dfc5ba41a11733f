#include "lockstep/train/task.h"

namespace lockstep::train {

data::Batch part_of(const data::Batch& batch, std::int64_t first, std::int64_t count) {
  data::Batch part = batch;
  part.first += first;
  part.ids.assign(batch.ids.begin() + first, batch.ids.begin() + first + count);
  for (auto* tensors : {&part.tensors, &part.lengths}) {
    for (auto& tensor : *tensors) {
      if (tensor.defined()) tensor = tensor.narrow(0, first, count);
    }
  }
  return part;
}

at::Tensor for_loss(const at::Tensor& outputs) {
  return at::isReducedFloatingType(outputs.scalar_type()) ? outputs.to(at::kFloat) : outputs;
}

}  // namespace lockstep::train
