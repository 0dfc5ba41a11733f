// lockstep/parallel/data_parallel.h
//
// Data parallelism: every rank has the whole model and a part of each batch, and a
// step's gradients are summed over the ranks while backward still goes on. Weights
// and gradients live in buckets of communicator memory; after the first step these are laid
// out anew in the order in which gradients arrive. Collectives of all ranks are the
// same whatever their models do: a parameter that a rank did not use counts as zeros.
// Instead of summing gradients for everyone, ranks can make new weights of them in the
// same sweep, see update_with().
//
//   DataParallel engine(parameters_of(model), group);
//   loss.backward();          // of a loss that is a sum, so that uneven ranks stay exact
//   engine.finish();          // parameter.grad() is now the sum over all ranks
//
// One thread at a time uses it; hooks run on the threads of backward.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/buckets.h"
#include "lockstep/parallel/gradient_engine.h"
#include "lockstep/parallel/parameter.h"
#include "lockstep/parallel/wire.h"

namespace lockstep::parallel {

struct DataParallelOptions {
  BucketSizes buckets = {};
  /// What happens to gradients between ranks.
  comm::ReduceOp op = comm::ReduceOp::Sum;
  /// Names of parameters whose gradients are sparse: they travel as rows, see Bucket::rows.
  std::set<std::string> sparse = {};
  /// How gradients travel; none: as they are.
  std::shared_ptr<Wire> wire = nullptr;
  /// Gradients stay those of their rank, each of which steps on its own until average_weights().
  bool local = false;
  /// See GradientEngine::held().
  std::set<std::string> held = {};
};

/// Makes new weights of a bucket's elements [first, first + count) of their summed gradients.
using BucketUpdate =
    std::function<void(std::size_t bucket, std::int64_t first, std::int64_t count, const void* gradients)>;

class DataParallel final : public GradientEngine {
 public:
  /// Takes over the parameters that require a gradient; all weights become those of rank 0.
  DataParallel(const Parameters& parameters, comm::Communicator& group, DataParallelOptions options = {});
  ~DataParallel() override;
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  /// Virtual shards, for sums whose bits do not depend on the number of ranks: what follows is backward of shard
  /// `number` of the `count` that this rank holds, a power of two. From 0 on; gradients begin anew with each.
  void begin_shard(int number, int count);
  /// From now on the owner of elements (see Communicator::owned, per bucket) makes new weights of their gradients,
  /// which every rank then has: weights change during backward, once no rank needs the old ones any more, and
  /// gradients stay those of this rank. `update` is called on any thread, one call at a time. None: as before.
  void update_with(BucketUpdate update);
  /// Of the wire, see there.
  void forget();
  /// Weights become the mean over ranks, in which this one's count by `share`; all shares add up to 1. A collective.
  void average_weights(double share);

  void reduce_in_backward(bool last) noexcept override;
  bool lay_out() override;
  void finish() override;
  void weights_changed() override {}
  void drop_gradients() override;
  bool begun() const noexcept override;
  Parameters held() override;
  void release() override;
  const Buckets& buckets() const noexcept override;
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
