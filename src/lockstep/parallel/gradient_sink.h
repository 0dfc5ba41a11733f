// lockstep/parallel/gradient_sink.h
//
// Where the gradient of a parameter is to lie, and who wants to know when it is complete,
// in the midst of backward. A layer that can write it there itself saves a pass over
// memory; that of any other layer is copied there. All that this project asks of autograd
// beyond its stable interface stands in this file's .cpp.
#pragma once

#include <memory>

#include <ATen/core/Tensor.h>

namespace lockstep::parallel {

class GradientSink {
 public:
  virtual ~GradientSink() = default;
  /// Shaped as the parameter.
  virtual at::Tensor target() const = 0;
  /// Once in every backward that reaches the parameter, on the thread of backward: parameter.grad() is complete.
  virtual void ready() = 0;
};

/// Replaces the one that was there; nullptr ends it.
void set_gradient_sink(const at::Tensor& parameter, std::unique_ptr<GradientSink> sink);
/// nullptr: none.
GradientSink* gradient_sink(const at::Tensor& parameter);

/// parameter.grad(), which may be sparse, becomes `target`, dense.
void move_gradient(const at::Tensor& parameter, const at::Tensor& target);

}  // namespace lockstep::parallel
