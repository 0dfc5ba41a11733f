// lockstep/parallel/layers/dropout.h
//
// torch::nn::Dropout, whose mask is a function of the random key, of its own name in the model
// and of where an element lies among those of all samples of the step: however samples are spread
// over ranks and pieces, and however layers are split, masks are those of one process. Samples are
// the first dim. Split by "column" it knows that its input is some of the columns (the last dim) of
// each rank's; by "channel", of the second dim (channels of images, heads); by "time", that it is a slice
// of time (the second dim), see time_slices.h.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <torch/nn/pimpl.h>

#include "lockstep/parallel/layers/layer.h"

namespace lockstep::parallel {

class DropoutImpl : public Layer {
 public:
  explicit DropoutImpl(double probability = 0.5);
  at::Tensor forward(const at::Tensor& input);

  std::uint64_t key = 0;  // of its name

  /// It is not split, though layers around it are: ranks of `group` bring the same values, or one mask would be drawn
  /// for different elements. The first forward that drops looks, on all of them, and fails with `name` if not.
  void expect_same_values(const std::string& name, comm::Communicator& group);

 protected:
  std::vector<std::string> ways() const override { return {"channel", "column", "time"}; }
  void split_by(const std::string& how) override {
    over_channels_ = how == "channel";
    over_time_ = how == "time";
  }

 private:
  void check_same_values(const at::Tensor& input);
  /// Columns or channels of the ranks before this one, and of all.
  std::pair<std::int64_t, std::int64_t> columns(std::int64_t own);

  double probability_;
  bool over_channels_ = false, over_time_ = false;
  comm::Communicator* alike_ = nullptr;  // who shall have the same values, until that was looked at
  std::string name_;                     // for the error
  std::int64_t own_columns_ = -1, columns_before_ = 0, all_columns_ = 0;  // as ranks have told each other
};
TORCH_MODULE(Dropout);

/// Gives every Dropout of `model` the key of its name. Two models of one kind then drop alike.
void name_layers(torch::nn::Module& model);

}  // namespace lockstep::parallel
