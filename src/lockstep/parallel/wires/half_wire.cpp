#include "lockstep/parallel/wires/half_wire.h"

namespace lockstep::parallel {

void HalfWire::start(comm::Communicator& group, std::size_t number, const at::Tensor& gradients) {
  if (number >= halves_.size()) halves_.resize(number + 1);
  at::Tensor& half = halves_[number];
  if (!half.defined()) half = group.empty({gradients.numel()}, type_);
  half.copy_(gradients);
  under_way_.push_back({gradients, half, group.all_reduce_(half, comm::ReduceOp::Sum, kOnItsWay)});
}

void HalfWire::finish(comm::Communicator&) {
  for (auto& [gradients, half, work] : under_way_) {
    work.wait();
    gradients.copy_(half);
  }
  under_way_.clear();
}

}  // namespace lockstep::parallel
