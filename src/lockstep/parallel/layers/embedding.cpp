#include "lockstep/parallel/layers/embedding.h"

#include <optional>

#include <ATen/TensorOperators.h>
#include <ATen/ops/embedding.h>

#include "lockstep/core/error.h"
#include "lockstep/parallel/layers/column_product.h"
#include "lockstep/parallel/matrix_products.h"
#include "lockstep/parallel/tensor_parallel.h"
#include "lockstep/parallel/time_slices.h"

namespace lockstep::parallel {

EmbeddingImpl::EmbeddingImpl(std::int64_t words, std::int64_t width, bool sparse)
    : weight(declare("weight", {words, width}, InitialValues::normal(1))), sparse_(sparse) {}

void EmbeddingImpl::split_by(const std::string& how) {
  if (sparse_) fail(Fault::Usage, "an embedding with sparse gradients cannot be split by " + how + ": make it dense");
  by_vocabulary_ = how != "time";
  over_time_ = how != "vocabulary";
  if (by_vocabulary_) {
    cut(weight, {.dim = 0, .index = ranks()->rank(), .count = ranks()->size()});
  } else {
    gets_partial_gradient(weight);
  }
}

at::Tensor EmbeddingImpl::forward(const at::Tensor& words) {
  if (ranks() == nullptr)
    return at::embedding(weight, words, /*padding_idx=*/-1, /*scale_grad_by_freq=*/false, sparse_);
  if (!by_vocabulary_) {
    const TimeSlice own = time_slice(words.size(-1), *ranks());
    return at::embedding(weight, words.narrow(-1, own.first, own.count));
  }
  const at::Tensor mine = words - first_word();
  const at::Tensor of_others = mine.lt(0).logical_or_(mine.ge(weight.size(0)));
  const at::Tensor vectors = at::embedding(weight, mine.masked_fill(of_others, 0));
  const at::Tensor shares = vectors.masked_fill(of_others.unsqueeze(-1), 0);
  return over_time_ ? sum_to_slices(shares, *ranks()) : sum_of_ranks(shares, *ranks());
}

at::Tensor EmbeddingImpl::scores(const at::Tensor& values) {
  if (!sparse_) return column_product({values}, weight, std::nullopt, group(), over_time_);
  return linear_map(values, weight);  // whose gradient the engine refuses beside rows
}

}  // namespace lockstep::parallel
