// lockstep/parallel/pipeline.h
//
// Pipeline parallelism: the links of a chain are cut into stages, one for each rank of a group
// (or several, a piece here and a piece there), and micro-batches pass them one after another. In
// which order a rank works on which micro-batch is a table, see pipeline_schedule.h; here it is
// carried out. Activations and slopes travel in memory of the communicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/chain.h"
#include "lockstep/parallel/late_gradients.h"
#include "lockstep/parallel/pipeline_schedule.h"

namespace lockstep::parallel {

/// What the pipeline asks of whoever has the samples. A micro-batch may have none, on all stages alike: nothing is done
/// of it.
class PipelineFeed {
 public:
  virtual ~PipelineFeed() = default;
  virtual bool empty(int micro_batch) const = 0;
  /// Before anything is computed of it: for the key of its chance.
  virtual void begin(int micro_batch) = 0;
  /// Of the first link.
  virtual at::Tensor input(int micro_batch) = 0;
  /// Of the loss, as it follows from the outputs of the last link.
  virtual at::Tensor slopes(int micro_batch, const at::Tensor& outputs) = 0;
  /// Before gradients of weights are computed, or passed over where there are no samples: whether none will follow in
  /// this stage's `chunk`. Of the same micro-batch on all ranks of the data axis, which sum what they have then.
  virtual void expect_gradients(bool last) = 0;
};

class Pipeline {
 public:
  /// `cuts` are the first links of all virtual stages, and the number of links at the end.
  Pipeline(const Chain& chain, std::vector<std::size_t> cuts, comm::Communicator& stages, ChainPass::Options options,
           c10::Device device = c10::kCPU);

  /// Whether this rank has the last link, and so the outputs.
  bool last() const noexcept { return stages_.rank() == stages_.size() - 1; }
  /// Forward and backward of all micro-batches of a step; the most bytes that were on their way to other stages at
  /// once. A collective.
  std::int64_t train(const PipelineSchedule& schedule, PipelineFeed& feed);
  /// Forward alone, of what `input` gives on the first stage; the outputs on the last stage, elsewhere none. A
  /// collective.
  std::optional<at::Tensor> forward(const std::function<at::Tensor()>& input);
  /// Instead of forward() where there are no samples, on all stages alike.
  void pass_over_forward() const;

 private:
  struct Key {
    bool gradient;
    int micro_batch, chunk;
    auto operator<=>(const Key&) const = default;
  };
  class Mail;
  /// Of a piece of this rank: its place among all of them.
  int virtual_stage(int chunk) const noexcept { return chunk * stages_.size() + stages_.rank(); }
  int virtual_stages() const noexcept { return static_cast<int>(cuts_.size()) - 1; }
  ChainPass pass_of(int virtual_stage) const;

  const Chain& chain_;
  std::vector<std::size_t> cuts_;
  comm::Communicator& stages_;
  ChainPass::Options options_;
  c10::Device device_;  // where links compute
};

}  // namespace lockstep::parallel
