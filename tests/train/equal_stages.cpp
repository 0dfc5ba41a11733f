// A pipeline whose stages have exactly the same to do: they sleep, so that a few cores are enough for any number of
// stages, or compute, on a core each. Ranks are stages.
// Usage: equal_stages SCHEDULE MICRO_BATCHES STEPS sleep MILLISECONDS | compute MILLIONS_OF_MULTIPLICATIONS
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <torch/torch.h>

#include "lockstep/comm/runtime.h"
#include "lockstep/parallel/late_gradients.h"
#include "lockstep/parallel/pipeline.h"
#include "lockstep/profile/span.h"

namespace lockstep::test {
namespace {

/// As much of it in forward as in each half of backward.
struct Work {
  bool sleeps;
  double amount;  // milliseconds; or millions of multiplications

  void operator()() const {
    if (sleeps) {
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(amount));
      return;
    }
    // Each waits for the one before: neither vectors nor what else the core's units do make it faster or slower.
    static volatile double begin = 0.5;  // which no compiler knows
    double value = begin;
    const auto count = static_cast<std::int64_t>(1e6 * amount);
    for (std::int64_t i = 0; i < count; ++i) value = value * 0.999999 + 1e-6;
    volatile double result = value;
    (void)result;
  }
};

struct Block : torch::autograd::Function<Block> {
  /// Nobody asks for the slopes of the first block's input: the weight's keep it in the graph.
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input, const at::Tensor&,
                            const Work& work) {
    context->saved_data["sleeps"] = work.sleeps;
    context->saved_data["amount"] = work.amount;
    work();
    return input.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& slopes) {
    const Work work{context->saved_data["sleeps"].toBool(), context->saved_data["amount"].toDouble()};
    work();
    if (auto* late = parallel::LateGradients::now()) {
      late->add({}, work);
    } else {
      work();
    }
    return {slopes[0].clone(), {}, {}};
  }
};

class Feed final : public parallel::PipelineFeed {
 public:
  bool empty(int) const override { return false; }
  void begin(int) override {}
  /// As large as the activations of a small GPT.
  at::Tensor input(int) override { return torch::zeros({4, 128, 256}); }
  at::Tensor slopes(int, const at::Tensor& outputs) override { return torch::ones_like(outputs); }
  void expect_gradients(bool) override {}
};

void run(comm::Communicator& stages, const std::string& name, int micro_batches, int steps, const Work& work) {
  const int chunks = parallel::usual_chunks(name);
  const auto schedule = parallel::make_pipeline_schedule(name, stages.size(), micro_batches, chunks);
  const at::Tensor weight = torch::zeros({1}).requires_grad_();
  parallel::Chain chain;
  std::vector<std::size_t> cuts{0};
  for (int block = 0; block < stages.size() * chunks; ++block) {
    chain.push_back({"block", {}, [&](const at::Tensor& input) { return Block::apply(input, weight, work); }});
    cuts.push_back(chain.size());
  }
  parallel::Pipeline pipeline(chain, cuts, stages, {});
  Feed feed;
  for (int step = 0; step < steps; ++step) {
    const profile::Span span("step");
    pipeline.train(schedule, feed);
    stages.barrier();
  }
}

}  // namespace
}  // namespace lockstep::test

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const lockstep::test::Work work{std::string(argv[4]) == "sleep", std::atof(argv[5])};
  return lockstep::comm::run_program(argc, argv, [&](lockstep::comm::Runtime& runtime) {
    lockstep::test::run(runtime.world(), argv[1], std::atoi(argv[2]), std::atoi(argv[3]), work);
  });
}
