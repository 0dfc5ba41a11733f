#include "lockstep/parallel/distributed_optimizer.h"

#include <string>

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include "lockstep/parallel/broadcast.h"
#include "lockstep/parallel/data_parallel.h"
#include "lockstep/parallel/module_parameters.h"

namespace lockstep::parallel {
namespace {

/// An optimiser knows no names: their numbers.
Parameters numbered(const torch::optim::Optimizer& optimizer) {
  Parameters result;
  for (const auto& group : optimizer.param_groups()) {
    for (const auto& tensor : group.params()) result.push_back({"parameter " + std::to_string(result.size()), tensor});
  }
  return result;
}

}  // namespace

class DistributedOptimizer::State {
 public:
  State(torch::optim::Optimizer& given, comm::Communicator& group)
      : optimizer(given), engine(numbered(given), group, {.op = comm::ReduceOp::Avg}) {}
  torch::optim::Optimizer& optimizer;
  DataParallel engine;
};

void broadcast_(torch::nn::Module& model, comm::Communicator& group, int root) {
  for (const auto& tensors : {parameters_of(model), buffers_of(model)}) broadcast_(tensors, group, root, "model");
}

DistributedOptimizer::DistributedOptimizer(torch::optim::Optimizer& optimizer, comm::Communicator& group)
    : state_(std::make_unique<State>(optimizer, group)) {}
DistributedOptimizer::~DistributedOptimizer() = default;

void DistributedOptimizer::zero_grad() { state_->engine.drop_gradients(); }

void DistributedOptimizer::step() {
  state_->engine.finish();
  state_->optimizer.step();
}

}  // namespace lockstep::parallel
