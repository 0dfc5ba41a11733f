#include "lockstep/train/task.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"

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

void check_numbers(const at::Tensor& numbers, std::int64_t count, const data::Batch& batch, const std::string& what,
                   const std::string& key) {
  const at::Tensor bad = numbers.lt(0).logical_or(numbers.ge(count)).nonzero();  // [how many, dims]
  if (bad.size(0) == 0) return;
  at::Tensor number = numbers;
  for (std::int64_t dim = 0; dim < bad.size(1); ++dim) number = number[bad[0][dim].item<std::int64_t>()];
  const auto value = number.item<std::int64_t>();
  const auto id = batch.ids[static_cast<std::size_t>(bad[0][0].item<std::int64_t>())];
  fail(Fault::Data, fmt::format("sample {} has the {} {}, but {} = {}: {}", id, what, value, key, count,
                                value < 0 ? "it must not be negative; mend the data"
                                          : fmt::format("set it to at least {}", value + 1)));
}

}  // namespace lockstep::train
