// lockstep/parallel/layers/made_input.h
//
// An input of a layer that is a cheap function of something which backward keeps anyway: what a norm makes of the
// residual stream, or an activation function of the layer in front. While MadeInputsDropped lives, a
// layer that can does not keep such an input for backward but makes it again there, to the bit and without a matrix
// product (recompute = "selective").
#pragma once

#include <functional>
#include <utility>

#include <ATen/core/Tensor.h>

namespace lockstep::parallel {

struct MadeInput {
  at::Tensor values;
  /// Called without gradients, in backward; none: values are to be kept.
  std::function<at::Tensor()> again = {};
};

class MadeInputsDropped {
 public:
  MadeInputsDropped() noexcept;
  ~MadeInputsDropped();
  MadeInputsDropped(const MadeInputsDropped&) = delete;
  MadeInputsDropped& operator=(const MadeInputsDropped&) = delete;

  /// Of the calling thread.
  static bool now() noexcept;
};

/// `make` of `source`, once more in backward where that is asked for: it draws no chance, and depends on nothing else
/// but weights.
template <class Make>
MadeInput made(Make make, const at::Tensor& source) {
  MadeInput input{make(source)};
  if (MadeInputsDropped::now()) {
    input.again = [make = std::move(make), source = source.detach()]() mutable { return make(source); };
  }
  return input;
}

}  // namespace lockstep::parallel
