// lockstep/parallel/layers/dropout.h
//
// torch::nn::Dropout, whose mask is a function of the random key and of its own name in
// the model alone (see random_key.h and name_layers()).
#pragma once

#include <cstdint>

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

namespace lockstep::parallel {

class DropoutImpl : public torch::nn::Module {
 public:
  explicit DropoutImpl(double probability = 0.5);
  at::Tensor forward(const at::Tensor& input);

  std::uint64_t key = 0;  // of its name

 private:
  double probability_;
};
TORCH_MODULE(Dropout);

/// Gives every Dropout of `model` the key of its name. Two models of one kind then drop alike.
void name_layers(torch::nn::Module& model);

}  // namespace lockstep::parallel
