#include "lockstep/parallel/pipeline.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/comm/on_ranks.h"

namespace lockstep::parallel {
namespace {

using comm::Communicator;
using comm::testing::on_ranks;

/// Of ones, whose outputs are summed.
class Ones final : public PipelineFeed {
 public:
  bool empty(int) const override { return false; }
  void begin(int) override {}
  at::Tensor input(int) override { return torch::ones({3, 4}); }
  at::Tensor slopes(int, const at::Tensor& outputs) override { return torch::ones_like(outputs); }
  void expect_gradients(bool) override {}
};

/// The second stage does not depend on its input by autograd, and so has nothing to send back but that.
TEST(Pipeline, SaysThatThereAreNoSlopes) {
  for (const std::string name : {"1f1b", "gpipe", "zero_bubble"}) {
    on_ranks({3}, [&](Communicator& stages) {
      torch::nn::Linear first(4, 4), last(4, 4);
      const Chain chain{{"first", {"first"}, [&](const at::Tensor& x) { return first->forward(x); }},
                        {"cut", {}, [](const at::Tensor& x) { return x.detach() * 2; }},
                        {"last", {"last"}, [&](const at::Tensor& x) { return last->forward(x); }}};
      Pipeline pipeline(chain, {0, 1, 2, 3}, stages, {});
      Ones ones;
      pipeline.train(make_pipeline_schedule(name, 3, 4, 1), ones);
      EXPECT_FALSE(first->weight.grad().defined());
      EXPECT_EQ(last->weight.grad().defined(), stages.rank() == 2);
    });
  }
}

}  // namespace
}  // namespace lockstep::parallel
