// lockstep/parallel/layers/linear.h
//
// torch::nn::Linear, whose weights' gradient goes straight to where it is reduced from.
// A weight that another layer shares must use linear_map() instead: nobody could say when its
// gradient is complete.
//
// It can be split over ranks: "column" gives each some of the outputs, of inputs that all have;
// "row" takes some of the inputs of each and sums. Between the two, ranks may have slices of time
// (time_slices.h): "column+time" gathers them, in backward once more instead of keeping them, and "row+time" ends
// in them.
#pragma once

#include <cstdint>

#include <torch/nn/pimpl.h>

#include "lockstep/parallel/layers/layer.h"
#include "lockstep/parallel/layers/made_input.h"

namespace lockstep::parallel {

class LinearImpl : public Layer {
 public:
  /// Begins as PyTorch's does. Outputs may be `bands` things of equal size one behind the other, such as queries, keys
  /// and values: each of them is split then.
  LinearImpl(std::int64_t inputs, std::int64_t outputs, bool bias = true, std::int64_t bands = 1);
  at::Tensor forward(const at::Tensor& input);
  /// The same; in backward the input is made again if it can be, where the gradient goes straight to its place.
  at::Tensor of_made(const MadeInput& input);

  /// Number of the first output that this rank has, of one band.
  std::int64_t first_output() const { return part_of(weight).first(); }
  /// Over which its outputs are split; nullptr: this rank has all of them.
  comm::Communicator* outputs_over() const noexcept { return sums_ ? nullptr : ranks(); }

  at::Tensor weight;  // [outputs, inputs]
  at::Tensor bias;    // [outputs], or undefined

 protected:
  std::vector<std::string> ways() const override { return {"column", "row", "column+time", "row+time"}; }
  void split_by(const std::string& how) override;

 private:
  std::int64_t bands_;
  bool sums_ = false;       // over ranks, of which each has some of the inputs
  bool over_time_ = false;  // ranks have slices of time of the inputs, or, where it sums, of the outputs
};
TORCH_MODULE(Linear);

}  // namespace lockstep::parallel
