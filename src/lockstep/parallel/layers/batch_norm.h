// lockstep/parallel/layers/batch_norm.h
//
// torch::nn::BatchNorm1d, 2d and 3d in one, which can take its statistics over the samples
// of all ranks (SyncedBatchNorms): ranks may have uneven parts, or none, and the result is that
// of one process with the whole batch. Then forward and backward are collectives, so every rank
// runs both, a rank without samples with an empty input.
//
// Split by "column" it has some of the channels, behind a convolution that is split so.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <torch/nn/pimpl.h>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/layers/layer.h"

namespace lockstep::parallel {

class SyncedBatchNorms;

class BatchNormImpl : public Layer {
 public:
  explicit BatchNormImpl(std::int64_t channels, double epsilon = 1e-5, double momentum = 0.1);
  at::Tensor forward(const at::Tensor& input);  // [sample, channel, …]

  at::Tensor weight, bias;                                    // [channels]
  at::Tensor running_mean, running_var, num_batches_tracked;  // of training, for evaluation

 protected:
  std::vector<std::string> ways() const override { return {"column"}; }
  void split_by(const std::string& how) override;

 private:
  friend class SyncedBatchNorms;
  at::Tensor synced(const at::Tensor& input);

  double epsilon_;
  double momentum_;
  SyncedBatchNorms* over_ranks_ = nullptr;
};
TORCH_MODULE(BatchNorm);

/// While it lives, every BatchNorm of `model` takes its statistics over all ranks of `group`. Fault::Usage if there is
/// one of torch::nn. All ranks make it at the same time.
class SyncedBatchNorms {
 public:
  SyncedBatchNorms(torch::nn::Module& model, comm::Communicator& group);
  ~SyncedBatchNorms();
  SyncedBatchNorms(const SyncedBatchNorms&) = delete;
  SyncedBatchNorms& operator=(const SyncedBatchNorms&) = delete;

  int ranks() const noexcept { return group_->size(); }
  /// There are none.
  bool empty() const noexcept { return norms_.empty(); }
  // Of a forward or a backward, by the thread that does it.
  void gather(at::Tensor& all, const at::Tensor& mine);
  void sum_(at::Tensor& values);
  /// Seconds that forwards and backwards have waited for other ranks.
  double waited_s() const noexcept { return waited_s_; }

 private:
  void wait_for(const std::function<comm::Work()>& collective);

  // Of its own: where its collectives come among those of gradients depends on backward.
  std::unique_ptr<comm::Communicator> group_;
  std::vector<std::shared_ptr<torch::nn::Module>> norms_;
  double waited_s_ = 0;
};

}  // namespace lockstep::parallel
