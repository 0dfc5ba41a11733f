// lockstep/parallel/layers/embedding.h
//
// torch::nn::Embedding, which can be split over ranks by "vocabulary": each has the vectors of
// some of the words, and gives zeros for all others. With "vocabulary+time" each rank gets its slice of time
// of the sum, see time_slices.h. Split by "time" a rank has all vectors, and looks up those of its
// slice: so are positions that are added to slices. Time is the last dim of words.
#pragma once

#include <cstdint>

#include <torch/nn/pimpl.h>

#include "lockstep/parallel/layers/layer.h"

namespace lockstep::parallel {

class EmbeddingImpl : public Layer {
 public:
  /// With `sparse`, gradients come as the rows of words that were met.
  EmbeddingImpl(std::int64_t words, std::int64_t width, bool sparse = false);
  at::Tensor forward(const at::Tensor& words);

  /// The head of a model whose outputs are these words: scores of those that this rank has.
  at::Tensor scores(const at::Tensor& values);

  /// Number of the first word whose vector this rank has.
  std::int64_t first_word() const { return part_of(weight).first(); }
  bool is_sparse() const noexcept { return sparse_; }
  /// Over which the words are split; nullptr: they are not.
  comm::Communicator* group() const noexcept { return by_vocabulary_ ? ranks() : nullptr; }
  /// Whether a rank has a slice of time of what it gives.
  bool over_time() const noexcept { return over_time_; }

  at::Tensor weight;  // [words, width]

 protected:
  std::vector<std::string> ways() const override { return {"vocabulary", "vocabulary+time", "time"}; }
  void split_by(const std::string& how) override;

 private:
  bool sparse_;
  bool by_vocabulary_ = false, over_time_ = false;
};
TORCH_MODULE(Embedding);

}  // namespace lockstep::parallel
