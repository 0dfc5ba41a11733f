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
// then zero_grad(), backward() and step() as ever.
#pragma once

#include <memory>

#include "lockstep/comm/communicator.h"

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
  DistributedOptimizer(torch::optim::Optimizer& optimizer, comm::Communicator& group);
  ~DistributedOptimizer();
  DistributedOptimizer(const DistributedOptimizer&) = delete;
  DistributedOptimizer& operator=(const DistributedOptimizer&) = delete;

  void zero_grad();
  /// Waits for the gradients of all ranks, then steps. Between zero_grad() and step() there is one backward.
  void step();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::parallel
