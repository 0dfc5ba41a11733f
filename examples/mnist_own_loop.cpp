// Your own training loop on any number of ranks: the four lines marked with an arrow are
// what makes it distributed. Usage: mnist_own_loop [SET [STEPS]]; see also mnist_trainer.cpp.
#include <cstdlib>

#include <fmt/format.h>
#include <torch/torch.h>

#include "lockstep/comm/runtime.h"
#include "lockstep/data/loader.h"
#include "lockstep/data/open.h"
#include "lockstep/models/weights.h"
#include "lockstep/parallel/distributed_optimizer.h"

using namespace lockstep;

struct NetImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& images) {
    auto values = torch::max_pool2d(torch::relu(conv(images)), 2).flatten(1);
    return out(torch::relu(hidden(values)));
  }
  torch::nn::Conv2d conv = register_module("conv", torch::nn::Conv2d(1, 16, 5));
  torch::nn::Linear hidden = register_module("hidden", torch::nn::Linear(16 * 12 * 12, 64));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(64, 10));
};
TORCH_MODULE(Net);

int main(int argc, char** argv) {
  comm::Runtime runtime(argc, argv);  // <--
  try {
    const auto set = data::open(argc > 1 ? argv[1] : "mnist");
    const long steps = argc > 2 ? std::atol(argv[2]) : 200;

    Net net;
    parallel::broadcast_(*net, runtime.world(), 0);                   // <--
    torch::optim::SGD sgd(net->parameters(), 0.02 * runtime.size());  // <-- a larger batch, a longer step
    parallel::DistributedOptimizer optimizer(sgd, runtime.world());   // <--

    data::Loader loader(set, data::make_order("shuffle", {.samples = set->size(), .seed = 1}),
                        {.batch = 64 * runtime.size(),
                         .share = {runtime.rank(), runtime.rank() + 1, runtime.size()},
                         .transforms = {"normalise image mean=0.1307 std=0.3081"},
                         .drop_last = true});
    for (long step = 0; step < steps;) {
      const data::Batch* batch = loader.next();
      if (batch == nullptr) continue;  // the next epoch begins
      optimizer.zero_grad();
      auto loss = torch::cross_entropy_loss(net((*batch)["image"]), (*batch)["label"].to(torch::kLong));
      loss.backward();
      optimizer.step();
      if (++step % 50 == 0 && runtime.rank() == 0) fmt::print("step {}: loss {:.3f}\n", step, loss.item<double>());
    }
    if (runtime.rank() == 0) models::save_weights(*net, "mnist_own_loop.safetensors");
    return 0;
  } catch (...) {
    return runtime.abort(current_error());
  }
}
