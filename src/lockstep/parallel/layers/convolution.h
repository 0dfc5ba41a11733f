// lockstep/parallel/layers/convolution.h
//
// torch::nn::Conv2d, which can be split over ranks by channels: "column" gives each rank some of
// the output channels, "row" takes some of the input channels of each and sums.
#pragma once

#include <cstdint>

#include <torch/nn/pimpl.h>

#include "lockstep/parallel/layers/layer.h"

namespace lockstep::parallel {

struct ConvolutionShape {
  std::int64_t inputs, outputs, kernel;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  bool bias = true;
};

class ConvolutionImpl : public Layer {
 public:
  /// Begins as PyTorch's does.
  explicit ConvolutionImpl(const ConvolutionShape& shape);
  at::Tensor forward(const at::Tensor& images);  // [sample, channel, height, width]

  at::Tensor weight;  // [outputs, inputs, kernel, kernel]
  at::Tensor bias;    // [outputs], or undefined

 protected:
  std::vector<std::string> ways() const override { return {"column", "row"}; }
  void split_by(const std::string& how) override;

 private:
  std::int64_t stride_, padding_;
  bool sums_ = false;  // over ranks, of which each has some input channels
};
TORCH_MODULE(Convolution);

}  // namespace lockstep::parallel
