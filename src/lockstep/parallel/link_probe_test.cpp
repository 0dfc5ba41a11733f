#include "lockstep/parallel/link_probe.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/comm/imagined_group.h"
#include "lockstep/core/memory_of_process.h"
#include "lockstep/core/testing.h"
#include "lockstep/parallel/allocation_meter.h"
#include "lockstep/parallel/layers/batch_norm.h"
#include "lockstep/parallel/layers/layer.h"
#include "lockstep/parallel/layers/linear.h"
#include "lockstep/parallel/tensor_parallel.h"

namespace lockstep::parallel {
namespace {

TEST(AllocationMeter, CountsWhatIsThereAndWhatWas) {
  const auto before = torch::zeros({1000});
  const AllocationMeter meter;
  auto one = torch::zeros({1000});
  EXPECT_EQ(meter.bytes(), 4000);
  {
    const auto two = torch::zeros({500});
  }
  EXPECT_EQ(meter.bytes(), 4000);
  EXPECT_EQ(meter.peak_bytes(), 6000);
  one = at::Tensor();
  EXPECT_EQ(meter.bytes(), 0);
}

TEST(AllocationMeter, PassesOverWhatOthersCount) {
  const AllocationMeter meter;
  at::Tensor counted, others;
  {
    const AllocationMeter::Pause pause;
    others = torch::zeros({1000});
  }
  counted = torch::zeros({500});
  EXPECT_EQ(meter.bytes(), 2000);
  others = at::Tensor();
  EXPECT_EQ(meter.bytes(), 2000);
  EXPECT_EQ(meter.peak_bytes(), 2000);
}

constexpr std::int64_t kWidth = 32;

/// A map to more and back, three times, with a norm behind.
struct NetImpl : torch::nn::Module {
  struct Pair : torch::nn::Module {
    Linear up = register_module("up", Linear(kWidth, 4 * kWidth));
    Linear down = register_module("down", Linear(4 * kWidth, kWidth));
    at::Tensor forward(const at::Tensor& values) {
      ++passes;
      return down(torch::tanh(up(values)));
    }
    int passes = 0;
  };
  Chain chain() {
    Chain links;
    for (const auto& [name, pair] :
         {std::pair("first", first), std::pair("second", second), std::pair("third", third)}) {
      links.push_back({name, {name}, [pair = pair](const at::Tensor& values) { return pair->forward(values); }});
    }
    links.push_back({"norm", {"norm"}, [this](const at::Tensor& values) { return norm(values); }});
    return links;
  }
  std::shared_ptr<Pair> first = register_module("first", std::make_shared<Pair>());
  std::shared_ptr<Pair> second = register_module("second", std::make_shared<Pair>());
  std::shared_ptr<Pair> third = register_module("third", std::make_shared<Pair>());
  BatchNorm norm = register_module("norm", BatchNorm(kWidth));
};
TORCH_MODULE(Net);

at::Tensor samples(std::int64_t count) { return torch::randn({count, kWidth}); }
at::Tensor loss(const at::Tensor& outputs) { return outputs.square().sum(); }

TEST(LinkProbe, MeasuresBytesToTheByte) {
  Net net;
  const auto costs = probe_links(*net, net->chain(), samples, loss);
  ASSERT_EQ(costs.links.size(), 4U);
  const auto& pair = costs.links[0];
  // The output, and what backward needs: of tanh its own output; the input is somebody else's.
  EXPECT_EQ(pair.output.at(10), 10 * 4 * kWidth);
  EXPECT_EQ(pair.kept.at(10), 10 * 4 * (4 * kWidth + kWidth));
  EXPECT_GT(pair.peak.at(10), pair.kept.at(10));
  EXPECT_GT(pair.seconds.at(1), 0);
  EXPECT_EQ(pair.summed.at(10), 0);
  EXPECT_EQ(costs.input.at(10), 10 * 4 * kWidth);
  EXPECT_GT(costs.loss.peak.at(10), 0);
}

TEST(LinkProbe, LeavesTheModelAsItWas) {
  Net net;
  std::vector<at::Tensor> before;
  for (const auto& tensor : net->parameters()) before.push_back(tensor.detach().clone());
  const auto statistics = net->norm->named_buffers()["running_mean"].clone();
  (void)probe_links(*net, net->chain(), [](std::int64_t count) { return samples(count).to(torch::kDouble); }, loss,
                    {.type = at::kDouble});
  std::size_t number = 0;
  for (const auto& tensor : net->parameters()) {
    EXPECT_EQ(tensor.scalar_type(), at::kFloat);
    EXPECT_TRUE(torch::equal(tensor, before[number++]));
    EXPECT_FALSE(tensor.grad().defined());
  }
  EXPECT_TRUE(torch::equal(net->norm->named_buffers()["running_mean"], statistics));
}

TEST(LinkProbe, MeasuresTwinsOnce) {
  Net net;
  const auto costs = probe_links(*net, net->chain(), samples, loss);
  // The first link has no slopes of its input to compute, so the second is none like it; the third is.
  EXPECT_GT(net->second->passes, 0);
  EXPECT_EQ(net->third->passes, 0);
  EXPECT_EQ(costs.links[2].kept.at(7), costs.links[1].kept.at(7));
  EXPECT_EQ(costs.links[2].seconds.at(7), costs.links[1].seconds.at(7));
}

TEST(LinkProbe, SeesPartsOfLayersThatAreSplit) {
  const auto ranks = comm::imagine_group(4);
  Net net, whole;
  split_layers(*net, {{"*.up", "column"}, {"*.down", "row"}}, *ranks);
  const auto costs = probe_links(*net, net->chain(), samples, loss, {.tensor = ranks.get()});
  EXPECT_EQ(costs.parameters[0].tensor.numel(), kWidth * kWidth);
  // Outputs are summed in forward, slopes of inputs in backward, which the first link does not need.
  EXPECT_EQ(costs.links[1].summed.at(10), 2 * 10 * 4 * kWidth);
  EXPECT_EQ(costs.links[0].summed.at(10), 10 * 4 * kWidth);
  const auto of_whole = probe_links(*whole, whole->chain(), samples, loss);
  EXPECT_LT(costs.links[0].kept.at(10), of_whole.links[0].kept.at(10));
}

TEST(LinkProbe, GoesRoundASampleThatANormDoesNotTakeAlone) {
  torch::nn::Sequential net(torch::nn::Linear(kWidth, kWidth), torch::nn::BatchNorm1d(kWidth));
  const Chain chain{
      {"0", {"0"}, [&](const at::Tensor& x) { return net[0]->as<torch::nn::Linear>()->forward(x); }},
      {"1", {"1"}, [&](const at::Tensor& x) { return net[1]->as<torch::nn::BatchNorm1d>()->forward(x); }}};
  const auto costs = probe_links(*net, chain, samples, loss);
  ASSERT_EQ(costs.links.size(), 2U);
  EXPECT_EQ(costs.links[1].output.at(10), 10 * 4 * kWidth);
}

TEST(LinkProbe, TakesModelsThatAreLargerThanWhatIsThere) {
  // Each map has 16 MiB: a model that nobody has filled, of which one map at a time has memory.
  constexpr std::int64_t kLarge = 2048, kMaps = 32;
  struct Large : torch::nn::Module {
    Large() {
      const DeferredFilling later;
      for (std::int64_t map = 0; map < kMaps; ++map) {
        // Each is of another size, so that each is measured.
        maps.push_back(register_module(std::to_string(map), Linear(kLarge + map, kLarge + map + 1)));
      }
    }
    std::vector<Linear> maps;
  };
  const auto large = std::make_shared<Large>();
  give_back_freed_memory();
  const std::int64_t before = anonymous_bytes();
  std::int64_t most = 0;
  Chain chain;
  for (std::int64_t map = 0; map < kMaps; ++map) {
    const std::string name = std::to_string(map);
    chain.push_back({name, {name}, [&, map](const at::Tensor& values) {
                       most = std::max(most, anonymous_bytes() - before);
                       return large->maps[static_cast<std::size_t>(map)](values);
                     }});
  }
  const auto costs = probe_links(
      *large, chain, [](std::int64_t count) { return torch::zeros({count, kLarge}); },
      [](const at::Tensor& outputs) { return outputs.sum(); });
  EXPECT_EQ(costs.parameters.size(), 2U * kMaps);
  EXPECT_GT(most, kLarge * kLarge * 4);
  // Sanitizers keep what is freed for a while, or take several times as much.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(most, kMaps * kLarge * kLarge * 4 / 2);
#endif
  const auto refusal = test::message_of(
      [&] {
        (void)probe_links(
            *large, chain, [](std::int64_t count) { return torch::zeros({count, kLarge}); },
            [](const at::Tensor& outputs) { return outputs.sum(); }, {.most_bytes = 1 << 20});
      },
      Fault::Usage);
  EXPECT_NE(refusal.find("'0' cannot be measured"), std::string::npos) << refusal;
}

}  // namespace
}  // namespace lockstep::parallel
