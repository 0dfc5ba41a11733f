// Every optimiser beside the one of the same name in libtorch.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/comm/on_ranks.h"
#include "lockstep/parallel/bucket_optimizer.h"
#include "lockstep/parallel/module_parameters.h"

namespace lockstep::parallel {
namespace {

using torch::optim::Optimizer;

struct Case {
  const char* name;
  const char* recipe;
  std::function<std::unique_ptr<Optimizer>(std::vector<at::Tensor>)> peer;
};
std::ostream& operator<<(std::ostream& out, const Case& one) { return out << one.name; }

template <class Peer, class Options>
auto peer(Options options) {
  return
      [options](std::vector<at::Tensor> parameters) { return std::make_unique<Peer>(std::move(parameters), options); };
}

const Case kCases[] = {
    {"sgd", "name = 'sgd'", peer<torch::optim::SGD>(torch::optim::SGDOptions(0.1).weight_decay(0.01))},
    {"momentum", "name = 'sgd'\nmomentum = 0.9\ndampening = 0.1",
     peer<torch::optim::SGD>(torch::optim::SGDOptions(0.1).momentum(0.9).dampening(0.1).weight_decay(0.01))},
    {"nesterov", "name = 'sgd'\nmomentum = 0.9\nnesterov = true",
     peer<torch::optim::SGD>(torch::optim::SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(0.01))},
    {"adam", "name = 'adam'\nbetas = [0.8, 0.99]",
     peer<torch::optim::Adam>(torch::optim::AdamOptions(0.1).betas({0.8, 0.99}).weight_decay(0.01))},
    {"adamw", "name = 'adamw'", peer<torch::optim::AdamW>(torch::optim::AdamWOptions(0.1).weight_decay(0.01))},
    {"adagrad", "name = 'adagrad'\nlr_decay = 0.1",
     peer<torch::optim::Adagrad>(torch::optim::AdagradOptions(0.1).lr_decay(0.1).weight_decay(0.01))},
    {"rmsprop", "name = 'rmsprop'\nalpha = 0.9\nmomentum = 0.5",
     peer<torch::optim::RMSprop>(torch::optim::RMSpropOptions(0.1).alpha(0.9).momentum(0.5).weight_decay(0.01))},
};

/// A gradient that differs from step to step and from element to element.
at::Tensor gradient(const at::Tensor& parameter, int step) {
  return (at::arange(parameter.numel(), at::kDouble) * (step + 1)).sin().view_as(parameter).to(parameter.scalar_type());
}

class SameAsLibtorch : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Optimizers, SameAsLibtorch, testing::ValuesIn(kCases),
                         [](const auto& one) { return std::string(one.param.name); });

TEST_P(SameAsLibtorch, OverTenSteps) {
  comm::testing::on_ranks({1}, [](comm::Communicator& group) {
    torch::manual_seed(3);
    torch::nn::Linear net(7, 5);
    net->to(torch::kDouble);
    const auto theirs = std::dynamic_pointer_cast<torch::nn::LinearImpl>(net->clone());
    const auto other = GetParam().peer(theirs->parameters());

    const Parameters parameters = parameters_of(*net);
    Buckets buckets(parameters, {1, 0}, {}, group);
    {
      const torch::NoGradGuard no_gradients;
      for (std::size_t number = 0; number < parameters.size(); ++number) {
        buckets.weight(number).copy_(parameters[number].tensor);
      }
    }
    const Config recipe = Config::from_text(std::string("[optimizer]\n") + GetParam().recipe);
    BucketOptimizer mine(make_optimizer(recipe.get("optimizer.name", ""), recipe, "optimizer"), parameters, buckets,
                         {{.patterns = {}, .weight_decay = 0.01}}, group);
    recipe.finish();
    for (int step = 0; step < 10; ++step) {
      const auto all = theirs->parameters();
      for (std::size_t number = 0; number < parameters.size(); ++number) {
        buckets.gradient(number).copy_(4 * gradient(parameters[number].tensor, step));
        all[number].mutable_grad() = gradient(parameters[number].tensor, step);
      }
      mine.step(0.1, 0.25);
      other->step();
      for (std::size_t number = 0; number < parameters.size(); ++number) {
        EXPECT_TRUE(at::allclose(buckets.weight(number), all[number], 1e-13, 1e-14)) << step << " " << number;
      }
    }
  });
}

TEST(Lamb, StepsAsLongAsTheParameter) {
  comm::testing::on_ranks({1}, [](comm::Communicator& group) {
    const Parameters parameters = {{"weight", at::arange(1, 13, at::kDouble).view({3, 4})}};
    Buckets buckets(parameters, {0}, {}, group);
    buckets.weight(0).copy_(parameters[0].tensor);
    BucketOptimizer optimizer(make_optimizer("lamb", Config(), "optimizer"), parameters, buckets, {{}}, group);
    at::Tensor weight = parameters[0].tensor.clone(), mean = at::zeros_like(weight), square = at::zeros_like(weight);
    for (int step = 0; step < 5; ++step) {
      const at::Tensor slope = gradient(weight, step);
      buckets.gradient(0).copy_(slope);
      optimizer.step(0.01, 1);
      mean = 0.9 * mean + 0.1 * slope;
      square = 0.999 * square + 0.001 * slope * slope;
      const at::Tensor change =
          mean / (1 - std::pow(0.9, step + 1)) / ((square / (1 - std::pow(0.999, step + 1))).sqrt() + 1e-6);
      weight = weight - 0.01 * weight.norm() / change.norm() * change;
      EXPECT_TRUE(at::allclose(buckets.weight(0), weight, 1e-12, 1e-12)) << step;
    }
  });
}

TEST(BucketOptimizer, GathersStatesThoughOneRankHasAllOfASmallBucket) {
  comm::testing::on_ranks({2}, [](comm::Communicator& group) {
    const Parameters parameters = {{"large", at::ones({1000})}, {"small", at::ones({3})}};
    const Buckets buckets(parameters, {0, 1}, {.first_bytes = 4, .bytes = 4}, group);
    BucketOptimizer optimizer(make_optimizer("adam", Config(), "optimizer"), parameters, buckets, {{}}, group,
                              BucketOptimizer::Of::OwnRank);
    ASSERT_EQ(buckets.all().size(), 2);
    for (std::size_t number = 0; number < 2; ++number) buckets.gradient(number).fill_(2);
    optimizer.step(0.1, 1);
    for (const auto& [name, state] : optimizer.states()) {
      EXPECT_TRUE(at::allclose(state, at::full_like(state, name.starts_with("exp_avg_sq") ? 0.004 : 0.2))) << name;
    }
  });
}

TEST(ParameterGroups, LearnApart) {
  comm::testing::on_ranks({1}, [](comm::Communicator& group) {
    const Parameters parameters = {
        {"a.weight", at::ones({3})}, {"a.bias", at::ones({3})}, {"norm.weight", at::ones({3})}};
    Buckets buckets(parameters, {2, 1, 0}, {}, group);
    for (std::size_t number = 0; number < 3; ++number) {
      buckets.weight(number).fill_(1);
      buckets.gradient(number).fill_(1);
    }
    BucketOptimizer optimizer(
        make_optimizer("sgd", Config(), "optimizer"), parameters, buckets,
        {{.patterns = {}, .weight_decay = 1}, {.patterns = {"*.bias", "norm.*"}, .lr_factor = 0.5, .weight_decay = 0}},
        group);
    optimizer.step(0.25, 1);
    EXPECT_EQ(buckets.weight(0)[0].item<float>(), 0.5F);
    EXPECT_EQ(buckets.weight(1)[0].item<float>(), 0.875F);
    EXPECT_EQ(buckets.weight(2)[2].item<float>(), 0.875F);
    // What a group does not say, one before it does.
    for (std::size_t number = 0; number < 3; ++number) buckets.weight(number).fill_(1);
    BucketOptimizer twice(make_optimizer("sgd", Config(), "optimizer"), parameters, buckets,
                          {{.patterns = {}, .weight_decay = 1},
                           {.patterns = {"*.bias"}, .weight_decay = 0},
                           {.patterns = {"a.*"}, .lr_factor = 2}},
                          group);
    twice.step(0.25, 1);
    EXPECT_EQ(buckets.weight(0)[0].item<float>(), 0.0F);
    EXPECT_EQ(buckets.weight(1)[0].item<float>(), 0.5F);
    EXPECT_EQ(buckets.weight(2)[2].item<float>(), 0.5F);
    EXPECT_THROW(BucketOptimizer(make_optimizer("sgd", Config(), "optimizer"), parameters, buckets,
                                 {{}, {.patterns = {"*.gamma"}}}, group),
                 Error);
  });
}

}  // namespace
}  // namespace lockstep::parallel
