// lockstep/parallel/sharded_parallel.h
//
// Data parallelism without copies (ZeRO): ranks share out what they need of a model beside its activations.
// With level 1 that is the state of the optimiser, with 2 gradients too, with 3 also the weights.
// A unit's weights are gathered before a link uses them, those of the next link meanwhile, and its
// gradients are reduced to shards as soon as its backward is done. Everything happens around links of a
// chain, in an order that does not depend on what these do: a rank whose samples skip a layer brings zeros.
//
//   ShardedParallel engine(parameters_of(model), chain, group, {.level = 3});
//   ChainPass pass(chain, 0, chain.size(), {.observer = engine.observer()});
//   pass.backward(slopes of pass.forward(input));
//   engine.finish();              // buckets().all()[unit].gradients are this rank's shard of the sum
//   …                             // the optimiser steps the shards
//   engine.weights_changed();
//
// After weights_changed(), weights of other ranks may be on their way until a link that uses them is driven, or
// the engine is gone. Outside of links, parameters of level 3 have no memory: to read one is an error. The same
// holds after the engine is gone. Shards of weights and what the optimiser remembers of them may lie in a file: those
// of the next link are read while a link computes. Of a model on a GPU everything that is shared out lies in
// memory of the host: the GPU has all weights, with level 3 those at work, and gradients leave it as soon as
// the backward of a link is done.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/chain.h"
#include "lockstep/parallel/gradient_engine.h"
#include "lockstep/parallel/offload.h"
#include "lockstep/parallel/units.h"

namespace lockstep::parallel {

struct ShardedOptions {
  int level = 3;
  /// Ranks of other groups that have the same shards of the same model for other samples, whose gradients are summed,
  /// too; nullptr: there are none.
  comm::Communicator* replicas = nullptr;
  /// See units_of().
  std::vector<std::size_t> cuts = {};
  std::int64_t unit_bytes = std::int64_t{1} << 20;
  /// Weights of the next link come, and gradients of the one before go, while a link is computed, if there is room for
  /// both (see Overlap): what a large embedding takes is not taken beside others.
  std::int64_t overlap_bytes = kOverlapBytes;
  /// See GradientEngine::held().
  std::set<std::string> held = {};
  /// The same of parameters of which ranks of another axis have copies: those of a link are a unit of their own, so
  /// that all of these ranks have the same shards of them, whatever else they have.
  std::set<std::string> partial = {};
  /// Makes the first weights of a slice, [count] elements of the parameter `number`, if it returns true; else they are
  /// what rank 0 has in the parameter.
  std::function<bool(std::size_t number, const Window& window, const at::Tensor& slice)> begin = {};
  /// Weights can lie there with level 3 alone.
  std::optional<OffloadOptions> offload = {};
  /// Where the model computes.
  c10::Device device = c10::kCPU;
};

class ShardedParallel final : public GradientEngine {
 public:
  /// Takes over the parameters that require a gradient. `chain` and `group` outlive it.
  ShardedParallel(const Parameters& parameters, const Chain& chain, comm::Communicator& group, ShardedOptions options);
  ~ShardedParallel() override;

  /// What this rank has of the weights: tensors of one dim, of device meta if they lie in a file, and which elements
  /// of the parameter they are.
  struct Slice {
    std::size_t parameter;
    std::string name;
    at::Tensor weights;
    Window window;
  };
  std::vector<Slice> slices() const;
  /// They become what `load` makes of tensors like them, one after another. weights_changed() comes next.
  void load_weights(const std::function<void(const Parameters&)>& load);

  LinkObserver* observer() noexcept override;
  bool shared_out() const noexcept override { return true; }
  bool has_whole_weights() const noexcept override;
  void reduce_in_backward(bool last) noexcept override;
  bool lay_out() override;
  void finish() override;
  void weights_changed() override;
  void drop_gradients() override;
  bool begun() const noexcept override;
  Parameters held() override;
  void release() override {}
  const Buckets& buckets() const noexcept override;
  Offload* offload() noexcept override;
  at::Tensor weight(std::size_t parameter) const override;
  const Parameters& parameters() const noexcept override;
  Parameters gradients() const override;
  MemoryUse memory() const override;
  std::vector<std::string> unused() const override;
  void check_equal() const override;

 private:
  class Engine;
  std::unique_ptr<Engine> engine_;
};

}  // namespace lockstep::parallel
