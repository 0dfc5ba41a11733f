// lockstep/parallel/layers/linear.h
//
// torch::nn::Linear, whose weights' gradient goes straight to where it is reduced from.
// A weight that another layer shares must use at::linear instead: nobody could say when its
// gradient is complete.
#pragma once

#include <cstdint>

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

namespace lockstep::parallel {

class LinearImpl : public torch::nn::Module {
 public:
  /// Begins as PyTorch's does.
  LinearImpl(std::int64_t inputs, std::int64_t outputs, bool bias = true);
  at::Tensor forward(const at::Tensor& input);

  at::Tensor weight;  // [outputs, inputs]
  at::Tensor bias;    // [outputs], or undefined
};
TORCH_MODULE(Linear);

}  // namespace lockstep::parallel
