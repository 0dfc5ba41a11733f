// lockstep/comm/tensor_values.h
//
// Copies of what tensors hold, unseen by autograd: parameters may be leaves that
// require gradients, and a collective is no step of the model.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>

namespace lockstep::comm {

inline void copy_values(const at::Tensor& to, const at::Tensor& from) {
  const c10::AutoGradMode off(false);
  to.copy_(from);
}

/// `tensor` itself if it is contiguous, else a copy.
inline at::Tensor contiguous_values(const at::Tensor& tensor) {
  const c10::AutoGradMode off(false);
  return tensor.contiguous();
}

}  // namespace lockstep::comm
