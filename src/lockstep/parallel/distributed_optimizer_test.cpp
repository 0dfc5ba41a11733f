// A loop of one's own on several ranks does what it does on one with the whole batch.
#include "lockstep/parallel/distributed_optimizer.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include "lockstep/comm/on_ranks.h"
#include "lockstep/core/testing.h"

namespace lockstep::parallel {
namespace {

constexpr std::int64_t kSamples = 12;

torch::nn::Linear layer(int seed) {
  torch::nn::Linear result(5, 3);
  torch::NoGradGuard no_gradients;
  for (auto& parameter : result->parameters()) {
    parameter.copy_((torch::arange(parameter.numel()) + seed).cos().view_as(parameter));
  }
  result->to(torch::kDouble);
  return result;
}

torch::Tensor loss_of(torch::nn::Linear& model, std::int64_t first, std::int64_t last) {
  const auto inputs = torch::arange(kSamples * 5, torch::kDouble).sin().view({kSamples, 5});
  return model(inputs.slice(0, first, last)).square().mean();
}

/// Three steps of a momentum SGD, by one process.
torch::nn::Linear trained_alone() {
  auto model = layer(0);
  torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  for (int step = 0; step < 3; ++step) {
    sgd.zero_grad();
    loss_of(model, 0, kSamples).backward();
    sgd.step();
  }
  return model;
}

double difference(const torch::nn::Linear& one, const torch::nn::Linear& other) {
  return std::max((one->weight - other->weight).abs().max().item<double>(),
                  (one->bias - other->bias).abs().max().item<double>());
}

class OwnLoop : public testing::TestWithParam<comm::testing::Ranks> {};
INSTANTIATE_TEST_SUITE_P(Ranks, OwnLoop, testing::ValuesIn(comm::testing::cases()));

TEST_P(OwnLoop, IsThatOfOneProcess) {
  const auto alone = trained_alone();
  for (const std::int64_t backwards : {1, 2}) {
    comm::testing::on_ranks(GetParam(), [&](comm::Communicator& group) {
      const std::int64_t share = kSamples / group.size();
      if (share * group.size() != kSamples || share % backwards != 0) return;
      auto model = layer(group.rank());  // becomes that of rank 0
      torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
      DistributedOptimizer optimizer(sgd, group);
      for (int step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        for (std::int64_t piece = 0; piece < backwards; ++piece) {
          optimizer.reduce_in_backward(piece + 1 == backwards);
          const std::int64_t first = group.rank() * share + piece * share / backwards;
          (loss_of(model, first, first + share / backwards) / backwards).backward();
        }
        optimizer.step();
      }
      EXPECT_LT(difference(model, alone), 1e-14);
    });
  }
}

TEST_P(OwnLoop, MayClipGradients) {
  constexpr double kNorm = 0.01;
  auto alone = layer(0);
  torch::optim::SGD sgd_alone(alone->parameters(), 0.05);
  for (int step = 0; step < 3; ++step) {
    sgd_alone.zero_grad();
    loss_of(alone, 0, kSamples).backward();
    torch::nn::utils::clip_grad_norm_(alone->parameters(), kNorm);
    sgd_alone.step();
  }
  comm::testing::on_ranks(GetParam(), [&](comm::Communicator& group) {
    const std::int64_t share = kSamples / group.size();
    if (share * group.size() != kSamples) return;
    auto model = layer(0);
    torch::optim::SGD sgd(model->parameters(), 0.05);
    DistributedOptimizer optimizer(sgd, group);
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      loss_of(model, group.rank() * share, (group.rank() + 1) * share).backward();
      optimizer.finish();
      torch::nn::utils::clip_grad_norm_(model->parameters(), kNorm);
      optimizer.step();
    }
    EXPECT_LT(difference(model, alone), 1e-14);
  });
}

TEST_P(OwnLoop, MaySkipSteps) {
  const auto alone = trained_alone();
  for (const bool finishes : {false, true}) {
    comm::testing::on_ranks(GetParam(), [&](comm::Communicator& group) {
      const std::int64_t share = kSamples / group.size();
      if (share * group.size() != kSamples) return;
      auto model = layer(0);
      torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
      DistributedOptimizer optimizer(sgd, group);
      for (int step = 0; step < 6; ++step) {
        const bool skip = step % 2 == 0;
        optimizer.zero_grad();
        // In a step that is skipped a rank may have nothing.
        if (!skip || group.rank() > 0) {
          (loss_of(model, group.rank() * share, (group.rank() + 1) * share) * (skip ? 1e6 : 1)).backward();
        }
        if (finishes) optimizer.finish();
        skip ? optimizer.skip_step() : optimizer.step();
      }
      EXPECT_LT(difference(model, alone), 1e-14);
    });
  }
}

TEST_P(OwnLoop, IsToldToStepOrToSkip) {
  comm::testing::on_ranks(GetParam(), [&](comm::Communicator& group) {
    auto model = layer(0);
    torch::optim::SGD sgd(model->parameters(), 0.05);
    DistributedOptimizer optimizer(sgd, group);
    loss_of(model, 0, 1).backward();
    EXPECT_NE(test::message_of([&] { optimizer.zero_grad(); }).find("skip_step()"), std::string::npos);
    optimizer.skip_step();
    optimizer.zero_grad();
  });
}

/// What an error-feedback wire has kept of gradients that are not applied must not come back.
TEST_P(OwnLoop, ForgetsSkippedStepsThatWentByAWire) {
  comm::testing::on_ranks(GetParam(), [&](comm::Communicator& group) {
    const auto trained = [&](bool spikes, bool finishes) {
      Config recipe;
      recipe.set("wire.name=topk");
      recipe.set("wire.ratio=0.3");
      auto model = layer(0);
      torch::optim::SGD sgd(model->parameters(), 0.05);
      DistributedOptimizer optimizer(sgd, group, make_wire(recipe, "wire"));
      // The first step sends all that it has; a wire begins with the second.
      for (int step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        loss_of(model, 0, kSamples).backward();
        optimizer.step();
      }
      optimizer.skip_step();  // so that both have forgotten
      if (spikes) {
        optimizer.zero_grad();
        (loss_of(model, 0, kSamples) * 1e6).backward();
        if (finishes) {
          optimizer.finish();
        } else {
          optimizer.skip_step();
        }
      }
      optimizer.zero_grad();
      loss_of(model, 0, kSamples).backward();
      optimizer.step();
      return model;
    };
    const auto expected = trained(false, false);
    for (const bool finishes : {false, true}) EXPECT_EQ(difference(trained(true, finishes), expected), 0) << finishes;
  });
}

TEST(OwnLoop, SendsGradientsByAWire) {
  const auto alone = trained_alone();
  comm::testing::on_ranks({4}, [&](comm::Communicator& group) {
    Config recipe;
    recipe.set("wire.name=bf16");
    const std::int64_t share = kSamples / group.size();
    auto model = layer(0);
    torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
    DistributedOptimizer optimizer(sgd, group, make_wire(recipe, "wire"));
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      loss_of(model, group.rank() * share, (group.rank() + 1) * share).backward();
      optimizer.step();
    }
    const double off = difference(model, alone);
    EXPECT_LT(off, 1e-2);
    EXPECT_GT(off, 1e-8) << "nothing was rounded";
  });
}

}  // namespace
}  // namespace lockstep::parallel
