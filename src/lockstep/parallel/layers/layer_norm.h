// lockstep/parallel/layers/layer_norm.h
//
// torch::nn::LayerNorm over the last dim. Split by "time" it gets slices of time, see time_slices.h.
#pragma once

#include <cstdint>

#include <torch/nn/pimpl.h>

#include "lockstep/parallel/layers/layer.h"

namespace lockstep::parallel {

class LayerNormImpl : public Layer {
 public:
  explicit LayerNormImpl(std::int64_t width, double epsilon = 1e-5);
  at::Tensor forward(const at::Tensor& input);

  at::Tensor weight, bias;  // [width]

 protected:
  std::vector<std::string> ways() const override { return {"time"}; }
  void split_by(const std::string& how) override;

 private:
  double epsilon_;
};
TORCH_MODULE(LayerNorm);

}  // namespace lockstep::parallel
