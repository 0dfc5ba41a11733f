#include "lockstep/parallel/distributed_optimizer.h"

#include <string>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include "lockstep/core/error.h"
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
  State(torch::optim::Optimizer& optimizer, comm::Communicator& group, std::shared_ptr<Wire> wire)
      : optimizer_(optimizer),
        divisor_(wire ? group.size() : 1),
        engine_(numbered(optimizer), group,
                {.op = wire ? comm::ReduceOp::Sum : comm::ReduceOp::Avg, .wire = std::move(wire)}) {}

  DataParallel& engine() noexcept { return engine_; }

  void zero_grad() {
    // Not finished here: a rank without samples has sent nothing, and would not come.
    if (engine_.begun()) {
      fail(Fault::Usage, "gradients are on their way since backward: all ranks call step(), or skip_step()");
    }
    if (finished_) engine_.forget();  // gradients that were looked at and are not to be applied
    engine_.drop_gradients();
    finished_ = false;
  }

  void finish() {
    if (std::exchange(finished_, true) && !engine_.begun()) return;
    engine_.finish();
    if (divisor_ == 1) return;
    const at::NoGradGuard no_gradients;
    for (const auto& parameter : engine_.parameters()) parameter.tensor.mutable_grad().div_(divisor_);
  }

  void step() {
    finish();
    optimizer_.step();
    begin_next();
  }

  void skip_step() {
    finish();
    engine_.forget();
    engine_.drop_gradients();
    begin_next();
  }

 private:
  void begin_next() {
    engine_.reduce_in_backward(true);
    finished_ = false;
  }

  torch::optim::Optimizer& optimizer_;
  int divisor_;  // wires sum
  DataParallel engine_;
  bool finished_ = false;
};

void broadcast_(torch::nn::Module& model, comm::Communicator& group, int root) {
  for (const auto& tensors : {parameters_of(model), buffers_of(model)}) broadcast_(tensors, group, root, "model");
}

DistributedOptimizer::DistributedOptimizer(torch::optim::Optimizer& optimizer, comm::Communicator& group,
                                           std::shared_ptr<Wire> wire)
    : state_(std::make_unique<State>(optimizer, group, std::move(wire))) {}
DistributedOptimizer::~DistributedOptimizer() = default;

void DistributedOptimizer::zero_grad() { state_->zero_grad(); }

void DistributedOptimizer::reduce_in_backward(bool last) { state_->engine().reduce_in_backward(last); }

void DistributedOptimizer::finish() { state_->finish(); }

void DistributedOptimizer::step() { state_->step(); }

void DistributedOptimizer::skip_step() { state_->skip_step(); }

}  // namespace lockstep::parallel
