// lockstep/parallel/distributed_optimizer.h
//
// For people with a loop of their own: an optimiser of torch::optim whose gradients are
// the mean over all ranks. Four lines make a program distributed:
//
//   comm::Runtime runtime(argc, argv);
//   parallel::broadcast_(*model, runtime.world(), 0);
//   torch::optim::SGD sgd(model->parameters(), 0.01 * runtime.size());
//   parallel::DistributedOptimizer optimizer(sgd, runtime.world());
//
// then zero_grad(), backward() and step() as ever. From backward on gradients are on their way: who clips
// or logs them calls finish() first. Several backwards make a step if all but the last come
// after reduce_in_backward(false).
#pragma once

#include <memory>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/wire.h"

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace lockstep::parallel {

/// Parameters and buffers become those of `root`.
void broadcast_(torch::nn::Module& model, comm::Communicator& group, int root);

class DistributedOptimizer {
 public:
  /// `optimizer` must outlive this; all ranks pass one of equal parameters, whose weights become those of rank 0.
  /// Gradients travel by `wire`; none: as they are.
  DistributedOptimizer(torch::optim::Optimizer& optimizer, comm::Communicator& group,
                       std::shared_ptr<Wire> wire = nullptr);
  ~DistributedOptimizer();
  DistributedOptimizer(const DistributedOptimizer&) = delete;
  DistributedOptimizer& operator=(const DistributedOptimizer&) = delete;

  /// Fault::Usage between backward and step() or skip_step().
  void zero_grad();
  /// Whether the next backward is the last before step(). Without it gradients are only added up on this rank.
  void reduce_in_backward(bool last);
  /// Waits until parameter.grad() is the mean over all ranks, which step() then takes as it is. A collective.
  void finish();
  /// Calls finish(), unless that was done, then steps. The next backward is one alone again.
  void step();
  /// Instead of step(), on all ranks: does away with what their backward has sent. A collective.
  void skip_step();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::parallel
