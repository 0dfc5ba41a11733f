// The smallest program: a sum over all ranks, and the order in which it is added.
#include <string>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lockstep/comm/runtime.h"
#include "lockstep/comm/tree.h"

using namespace lockstep::comm;

std::string order(TreeNode node) {
  return node.leaf() ? std::to_string(node.first) : fmt::format("({} + {})", order(node.left()), order(node.right()));
}

int main(int argc, char** argv) {
  return run_program(argc, argv, [](Runtime& runtime) {
    Communicator& world = runtime.world();
    at::Tensor tensor = at::full({4}, world.rank() + 1.0);
    world.all_reduce_(tensor, ReduceOp::Sum).wait();
    fmt::print("rank {} of {} over '{}': the sum is {}, added as {}\n", world.rank(), world.size(), world.backend(),
               tensor[3].item<double>(), order({0, world.size()}));
  });
}
