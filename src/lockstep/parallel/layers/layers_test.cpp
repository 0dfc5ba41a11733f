#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/comm/on_ranks.h"
#include "lockstep/core/error.h"
#include "lockstep/parallel/data_parallel.h"
#include "lockstep/parallel/layers/dropout.h"
#include "lockstep/parallel/layers/linear.h"
#include "lockstep/parallel/module_parameters.h"
#include "lockstep/parallel/random_key.h"

namespace lockstep::parallel {
namespace {

TEST(Linear, HasTheGradientsOfLibtorch) {
  comm::testing::on_ranks({1}, [](comm::Communicator& group) {
    torch::manual_seed(2);
    Linear mine(6, 4);
    torch::manual_seed(2);
    torch::nn::Linear theirs(6, 4);
    EXPECT_TRUE(torch::equal(mine->weight, theirs->weight));
    EXPECT_TRUE(torch::equal(mine->bias, theirs->bias));
    const auto input = torch::randn({2, 3, 6}).requires_grad_(), same = input.detach().clone().requires_grad_();
    DataParallel engine(parameters_of(*mine), group);
    for (int step = 0; step < 2; ++step) {
      engine.drop_gradients();
      theirs->zero_grad();
      mine(input).sin().sum().backward();
      engine.finish();
      theirs(same).sin().sum().backward();
      EXPECT_TRUE(torch::allclose(mine->weight.grad(), theirs->weight.grad()));
      EXPECT_TRUE(torch::allclose(mine->bias.grad(), theirs->bias.grad()));
      EXPECT_TRUE(torch::allclose(input.grad(), same.grad()));
    }
    const torch::NoGradGuard no_gradients;
    EXPECT_TRUE(torch::equal(mine(input), theirs(same)));
  });
}

struct TwoDropsImpl : torch::nn::Module {
  explicit TwoDropsImpl(double probability)
      : one(register_module("one", Dropout(probability))), two(register_module("two", Dropout(probability))) {
    name_layers(*this);
  }
  Dropout one, two;
};
TORCH_MODULE(TwoDrops);

TEST(Dropout, DependsOnKeyAndNameAlone) {
  TwoDrops drops(0.25), again(0.25);
  const auto ones = torch::ones({100, 101});
  const auto mask = [&ones](Dropout& layer, RandomKey key) {
    random_key() = key;
    return layer(ones);
  };
  const auto first = mask(drops->one, {1, 2, 3});
  EXPECT_TRUE(torch::equal(first, mask(again->one, {1, 2, 3})));
  for (const RandomKey& other : {RandomKey{2, 2, 3}, RandomKey{1, 3, 3}, RandomKey{1, 2, 4}}) {
    EXPECT_FALSE(torch::equal(first, mask(drops->one, other)));
  }
  EXPECT_FALSE(torch::equal(first, mask(drops->two, {1, 2, 3})));
  EXPECT_NEAR((first == 0).to(torch::kDouble).mean().item<double>(), 0.25, 0.02);
  EXPECT_FLOAT_EQ(first.max().item<float>(), 4.0F / 3);
  random_key() = {};
  drops->eval();
  EXPECT_TRUE(torch::equal(drops->one(ones), ones));
}

TEST(Dropout, IsTheSameOnAnyNumberOfThreads) {
  TwoDrops drops(0.5);
  const auto ones = torch::ones({300'000});
  const int before = torch::get_num_threads();
  torch::set_num_threads(1);
  const auto alone = drops->one(ones);
  torch::set_num_threads(3);
  EXPECT_TRUE(torch::equal(alone, drops->one(ones)));
  torch::set_num_threads(before);
}

TEST(Dropout, DropsWholeChannels) {
  Dropout drop(0.5, true);
  const auto output = drop(torch::ones({8, 16, 5, 5}));
  EXPECT_TRUE(torch::equal(output.amax({2, 3}), output.amin({2, 3})));
  EXPECT_THROW(Dropout(1.0), Error);
}

}  // namespace
}  // namespace lockstep::parallel
