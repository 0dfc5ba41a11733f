#include "lockstep/core/math_kernels.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>

namespace lockstep {

void choose_math_kernels() {
  using Function = at::Tensor (at::Tensor::*)() const;
  // Those that ATen leaves to MKL (ATen/cpu/vml.h), each by type.
  constexpr Function kFunctions[] = {&at::Tensor::acos, &at::Tensor::asin,  &at::Tensor::atan,   &at::Tensor::cos,
                                     &at::Tensor::erf,  &at::Tensor::erfc,  &at::Tensor::erfinv, &at::Tensor::exp,
                                     &at::Tensor::log,  &at::Tensor::log10, &at::Tensor::log2,   &at::Tensor::sin,
                                     &at::Tensor::sqrt, &at::Tensor::tan,   &at::Tensor::tanh,   &at::Tensor::trunc};
  [[maybe_unused]] static const bool once = [&] {
    for (const auto type : {at::kFloat, at::kDouble}) {
      const at::Tensor number = at::full({1}, 0.5, type);
      for (const Function function : kFunctions) (void)(number.*function)();
    }
    return true;
  }();
}

}  // namespace lockstep
