// lockstep/parallel/movable_run.h
//
// A run of elements whose memory comes and goes while tensors that are views of it stay: between uses of
// a weight its memory serves others, and what autograd has kept of it finds it again. To read a view
// while there is no memory is an error of torch.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace lockstep::parallel {

class MovableRun {
 public:
  MovableRun(std::int64_t elements, at::ScalarType type, c10::Device device = c10::kCPU);

  /// [elements].
  const at::Tensor& tensor() const noexcept { return tensor_; }
  /// `memory` is a tensor of as many elements on that device, which the caller keeps until it is taken out.
  void put_in(const at::Tensor& memory);
  void take_out();

 private:
  at::Tensor tensor_;
};

}  // namespace lockstep::parallel
