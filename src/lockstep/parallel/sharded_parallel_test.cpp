#include "lockstep/parallel/sharded_parallel.h"

#include <chrono>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <torch/torch.h>

#include "lockstep/comm/on_ranks.h"
#include "lockstep/core/error.h"
#include "lockstep/core/log.h"
#include "lockstep/core/testing.h"
#include "lockstep/parallel/bucket_optimizer.h"
#include "lockstep/parallel/layers/linear.h"
#include "lockstep/parallel/module_parameters.h"
#include "lockstep/parallel/units.h"

namespace lockstep::parallel {
namespace {

using comm::testing::on_ranks;

/// Four layers, of which the last uses the first one's weight, too; `skips` a layer in the midst of a link.
struct NetImpl : torch::nn::Module {
  explicit NetImpl(bool skips_third = false) : skips(skips_third) {
    static std::mutex mutex;  // all threads draw from one generator
    const std::lock_guard lock(mutex);
    torch::manual_seed(5);
    for (int layer = 0; layer < 4; ++layer) {
      layers.push_back(register_module(fmt::format("l{}", layer), Linear(6, 6)));
    }
    to(torch::kDouble);
  }
  Chain chain() {
    Chain links;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      std::vector<std::string> modules{fmt::format("l{}", i)};
      if (i == 3) modules.emplace_back("l0");
      links.push_back({fmt::format("link{}", i), modules, [this, i](const at::Tensor& x) {
                         if (i == 2 && skips) return x * 1.0;
                         const auto y = torch::tanh(layers[i](x));
                         return i == 3 ? torch::linear(y, layers[0]->weight) : y;
                       }});
    }
    return links;
  }
  bool skips;
  std::vector<Linear> layers;
};
TORCH_MODULE(Net);

at::Tensor input_of(int rank) {
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(rank) + 1);
  return torch::randn({3, 6}, generator, torch::kDouble);
}

/// Sums over ranks, by name, of one graph over the whole chain.
std::map<std::string, at::Tensor> expected_gradients(int ranks, int skipping_rank) {
  std::map<std::string, at::Tensor> sums;
  for (int rank = 0; rank < ranks; ++rank) {
    Net net(rank == skipping_rank);
    run(net->chain(), input_of(rank)).square().sum().backward();
    for (const auto& [name, tensor] : parameters_of(*net)) {
      const at::Tensor gradient = tensor.grad().defined() ? tensor.grad() : torch::zeros_like(tensor);
      sums[name] = sums.contains(name) ? sums[name] + gradient : gradient;
    }
  }
  return sums;
}

void go_through(const Chain& chain, ShardedParallel& engine, const at::Tensor& input) {
  ChainPass pass(chain, 0, chain.size(), {.observer = engine.observer()});
  const at::Tensor outputs = pass.forward(input);
  pass.backward(2 * outputs.detach());
}

struct Case {
  int ranks, level, skipping_rank;
};
class EveryLevel : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Sharded, EveryLevel,
                         testing::Values(Case{1, 3, -1}, Case{2, 1, -1}, Case{2, 2, -1}, Case{2, 3, -1}, Case{3, 3, -1},
                                         Case{4, 2, -1}, Case{2, 3, 1}, Case{3, 2, 0}));

TEST_P(EveryLevel, HasShardsOfTheSummedGradients) {
  const auto [ranks, level, skipping_rank] = GetParam();
  const auto expected = expected_gradients(ranks, skipping_rank);
  on_ranks({ranks}, [&, level = level, skipping_rank = skipping_rank](comm::Communicator& group) {
    Net net(group.rank() == skipping_rank);
    const Chain chain = net->chain();
    // Some links fit together, and some do not.
    ShardedParallel engine(parameters_of(*net), chain, group, {.level = level, .unit_bytes = 0, .overlap_bytes = 0});
    for (int step = 0; step < 2; ++step) {
      engine.drop_gradients();
      go_through(chain, engine, input_of(group.rank()));
      engine.finish();
      engine.weights_changed();  // to what they were
      std::int64_t elements = 0;
      for (std::size_t number = 0; number < engine.parameters().size(); ++number) {
        const Place& place = engine.buckets().place(number);
        const at::Tensor whole = expected.at(engine.parameters()[number].name).flatten();
        EXPECT_TRUE(torch::allclose(engine.buckets().gradient(number), whole.narrow(0, place.of_parameter, place.count),
                                    1e-12, 1e-14))
            << engine.parameters()[number].name << ", step " << step;
        elements += place.count;
      }
      const at::Tensor all = torch::tensor({elements});
      group.all_reduce_(all, comm::ReduceOp::Sum).wait();
      EXPECT_EQ(all.item<std::int64_t>(), 4 * (36 + 6));
    }
    EXPECT_TRUE(engine.unused().empty());
  });
}

TEST(Sharded, NamesWhatSamplesOfARankSkip) {
  for (const int level : {1, 2, 3}) {
    std::ostringstream text;
    log().sinks().push_back(std::make_shared<spdlog::sinks::ostream_sink_mt>(text));
    on_ranks({3}, [level](comm::Communicator& group) {
      Net net;
      const Chain chain = net->chain();
      ShardedParallel engine(parameters_of(*net), chain, group, {.level = level, .unit_bytes = 0});
      for (int step = 0; step < 4; ++step) {
        engine.drop_gradients();
        net->skips = group.rank() == 1 && step > 0;  // which depends on its samples
        // A rank without samples skips nothing.
        if (group.rank() == 2 && step == 1) {
          ChainPass none(chain, 0, chain.size(), {.observer = engine.observer()});
          none.pass_over_forward();
          none.pass_over_backward();
        } else {
          go_through(chain, engine, input_of(group.rank()));
        }
        engine.finish();
        engine.weights_changed();
      }
    });
    log().sinks().pop_back();
    const std::string said = text.str(), warning = "on rank 1 no gradient came for l2.weight, l2.bias: its samples";
    EXPECT_NE(said.find(warning), std::string::npos) << said;
    EXPECT_EQ(said.find("no gradient came"), said.rfind("no gradient came")) << "once: " << said;
  }
}

TEST(Sharded, RefuseGradientsThatNoLinkHasNamed) {
  for (const int level : {1, 2}) {
    on_ranks({2}, [level](comm::Communicator& group) {
      Net net;
      Chain chain = net->chain();
      chain[2].modules.clear();
      ShardedParallel engine(parameters_of(*net), chain, group, {.level = level, .unit_bytes = 0});
      engine.drop_gradients();
      go_through(chain, engine, input_of(group.rank()));
      EXPECT_NE(test::message_of([&] { engine.finish(); }, Fault::Usage).find("'l2.bias' is used by a link"),
                std::string::npos);
    });
  }
}

TEST(Sharded, CopiesBeginWithTheWeightsOfTheFirst) {
  on_ranks({4}, [](comm::Communicator& group) {
    const auto copy = group.split(group.rank() / 2), replicas = group.split(group.rank() % 2);
    Net net;
    {
      const torch::NoGradGuard no_gradients;
      for (const auto& parameter : net->parameters()) parameter.fill_(group.rank());  // as ranks that drew their own
    }
    ShardedParallel engine(parameters_of(*net), net->chain(), *copy,
                           {.level = 2, .replicas = replicas.get(), .unit_bytes = 0});
    for (const auto& parameter : net->parameters()) EXPECT_EQ(parameter.abs().max().item<double>(), 0);
    engine.check_equal();
  });
}

struct OffloadCase {
  int ranks, level;
  bool weights;
};
class Offloaded : public testing::TestWithParam<OffloadCase> {};
INSTANTIATE_TEST_SUITE_P(Sharded, Offloaded,
                         testing::Values(OffloadCase{1, 3, true}, OffloadCase{2, 1, false}, OffloadCase{2, 2, false},
                                         OffloadCase{2, 3, false}, OffloadCase{3, 3, true}));

TEST_P(Offloaded, LearnsTheSameBits) {
  const auto [ranks, level, weights] = GetParam();
  on_ranks({ranks}, [level = level, weights = weights](comm::Communicator& group) {
    const test::TemporaryFolder folder;
    const OffloadOptions in_file{.folder = folder.path(), .weights = weights, .states = 2, .piece_bytes = 128};
    std::vector<at::Tensor> learned;  // by the one, then by the other
    MemoryUse in_memory;
    for (const bool offloads : {false, true}) {
      Net net;
      const Chain chain = net->chain();
      ShardedParallel engine(
          parameters_of(*net), chain, group,
          {.level = level, .unit_bytes = 0, .offload = offloads ? std::optional(in_file) : std::nullopt});
      BucketOptimizer optimizer(make_optimizer("adamw", Config(), "optimizer"), engine.parameters(), engine.buckets(),
                                {{}, {.patterns = {"*.bias"}, .lr_factor = 0.5}}, group, BucketOptimizer::Of::AllRanks,
                                engine.offload());
      for (int step = 0; step < 5; ++step) {
        engine.drop_gradients();
        go_through(chain, engine, input_of(group.rank() + step));
        engine.finish();
        optimizer.step(0.01, 1);
        engine.weights_changed();
      }
      for (const auto& slice : engine.slices()) {
        EXPECT_EQ(slice.weights.is_meta(), offloads && weights);
        learned.push_back(engine.weight(slice.parameter).clone());
      }
      for (const auto& [name, state] : optimizer.states()) {
        EXPECT_EQ(state.is_meta(), offloads);
        learned.push_back(offloads ? optimizer.state(name) : state.clone());
      }
      const MemoryUse use = engine.memory();
      if (!offloads) {
        in_memory = use;
        in_memory.optimizer = optimizer.state_bytes();
        EXPECT_EQ(use.disk, 0);
        continue;
      }
      EXPECT_EQ(optimizer.state_bytes(), 0);
      EXPECT_EQ(use.weights, weights ? 0 : in_memory.weights);
      EXPECT_EQ(use.disk, in_memory.optimizer + (weights ? in_memory.weights : 0));
      EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
    }
    ASSERT_GT(learned.size(), 0U);
    for (std::size_t one = 0; one < learned.size() / 2; ++one) {
      EXPECT_TRUE(torch::equal(learned[one], learned[one + learned.size() / 2])) << one;
    }
  });
}

TEST(Sharded, HasNoWeightsOutsideOfLinks) {
  on_ranks({2}, [](comm::Communicator& group) {
    Net net;
    const Chain chain = net->chain();
    {
      ShardedParallel engine(parameters_of(*net), chain, group, {.level = 3, .unit_bytes = 0});
      EXPECT_THROW((void)net->layers[1]->weight.sum(), c10::Error);
      go_through(chain, engine, input_of(0));
      // Weights of a link and of the next, gradients of one and of one on its way; each has 36 and 6 elements, padded.
      constexpr std::int64_t kLink = (40 + 8) * 8, kTied = (48 + 16) * 8;
      EXPECT_LE(engine.memory().buffers, 4 * kLink + 2 * kTied);
      EXPECT_EQ(engine.memory().weights, (3 * kLink + kTied) / 2);
      engine.finish();
    }
    EXPECT_EQ(net->layers[1]->weight.numel(), 0);
  });
}

/// Links of one matrix each, of which one is large; they use it there and back.
struct UnevenImpl : torch::nn::Module {
  UnevenImpl() {
    for (const std::int64_t rows : {8, 8, 800, 8, 8})
      weights.push_back(register_module(fmt::format("l{}", weights.size()), Linear(8, rows, /*bias=*/false)));
    to(torch::kDouble);
  }
  Chain chain() {
    Chain links;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const std::string name = fmt::format("l{}", i);
      links.push_back({name, {name}, [weight = weights[i]->weight](const at::Tensor& x) {
                         return torch::tanh(torch::linear(x, weight)).matmul(weight);
                       }});
    }
    return links;
  }
  std::vector<Linear> weights;
};
TORCH_MODULE(Uneven);

TEST(Sharded, TakesALargeUnitBesideOthersOnlyWhereThereIsRoom) {
  constexpr std::int64_t kSmall = 8 * 8 * 8, kLarge = 800 * 8 * 8;
  const auto buffers = [](std::int64_t overlap_bytes) {
    std::int64_t bytes = 0;
    on_ranks({2}, [&](comm::Communicator& group) {
      Uneven net;
      const Chain chain = net->chain();
      ShardedParallel engine(parameters_of(*net), chain, group,
                             {.level = 3, .unit_bytes = 0, .overlap_bytes = overlap_bytes});
      for (int step = 0; step < 2; ++step) {
        engine.drop_gradients();
        go_through(chain, engine, torch::ones({2, 8}, torch::kDouble));
        engine.finish();
        engine.weights_changed();
      }
      if (group.rank() == 0) bytes = engine.memory().buffers;
    });
    return bytes;
  };
  EXPECT_EQ(buffers(0), 2 * kLarge);
  EXPECT_EQ(buffers(kLarge + kSmall), 2 * (kLarge + kSmall));
}

TEST(Sharded, NamesTheRankThatDoesNotComeToALink) {
  const std::string message = test::message_of(
      [] {
        on_ranks({2}, [](comm::Communicator& group) {
          Net net;
          const Chain chain = net->chain();
          ShardedParallel engine(parameters_of(*net), chain, group, {.level = 3, .unit_bytes = 0});
          if (group.rank() == 0) {
            go_through(chain, engine, input_of(0));
          } else {
            ChainPass pass(chain, 2, 4, {.observer = engine.observer()});
            (void)pass.forward(input_of(1));
          }
          engine.finish();
        });
      },
      Fault::Comm);
  EXPECT_NE(message.find("'l0.bias'"), std::string::npos) << message;
  EXPECT_NE(message.find("'link2'"), std::string::npos) << message;
}

TEST(Sharded, BeginsSliceBySlice) {
  on_ranks({3}, [](comm::Communicator& group) {
    Net net;
    const Chain chain = net->chain();
    ShardedParallel engine(
        parameters_of(*net), chain, group,
        {.level = 3, .unit_bytes = 0, .begin = [](std::size_t number, const Window& window, at::Tensor slice) {
           for (std::int64_t i = 0; i < window.count; ++i)
             slice[i] = static_cast<double>(number) * 100 + static_cast<double>(window.first + i);
           return true;
         }});
    engine.observer()->before_forward(1, {});
    const auto& weight = net->layers[1]->weight;  // parameter 2
    EXPECT_TRUE(torch::equal(weight.detach().flatten(), 200 + torch::arange(36, torch::kDouble)));
  });
}

TEST(Sharded, BeginsWithWhatSomeParametersBringThemselves) {
  for (const int level : {1, 2, 3}) {
    on_ranks({3}, [level](comm::Communicator& group) {
      Net net;
      const Chain chain = net->chain();
      const Parameters parameters = parameters_of(*net);
      std::vector<at::Tensor> brought;
      for (const auto& [name, tensor] : parameters) brought.push_back(tensor.detach().clone());
      // All in one unit, every other one made slice by slice.
      ShardedParallel engine(
          parameters, chain, group,
          {.level = level, .unit_bytes = 1 << 20, .begin = [](std::size_t number, const Window&, at::Tensor slice) {
             if (number % 2 == 0) slice.fill_(static_cast<double>(number) + 7);
             return number % 2 == 0;
           }});
      for (std::size_t link = 0; link < chain.size(); ++link) engine.observer()->before_forward(link, {});
      for (std::size_t number = 0; number < parameters.size(); ++number) {
        const at::Tensor made = torch::full_like(brought[number], static_cast<double>(number) + 7);
        EXPECT_TRUE(torch::equal(parameters[number].tensor, number % 2 == 0 ? made : brought[number]))
            << parameters[number].name << " of level " << level;
      }
    });
  }
}

/// Shards of ranks that are late come, too, before the engine goes.
TEST(Sharded, LeavesWholeWeights) {
  static constexpr std::int64_t kWide = 1024;  // a small gathering would be done at once
  for (const int level : {1, 2}) {
    on_ranks({2}, [level](comm::Communicator& group) {
      Linear net(kWide, kWide);
      const Chain chain{{"all", {""}, [&](const at::Tensor& x) { return net(x); }}};
      {
        ShardedParallel engine(parameters_of(*net), chain, group, {.level = level});
        engine.observer()->before_forward(0, {});  // the first weights have come
        group.barrier();
        engine.load_weights([](const Parameters& shards) {
          for (const auto& [name, tensor] : shards) at::Tensor(tensor).fill_(7);
        });
        if (group.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
        engine.weights_changed();
      }
      const torch::NoGradGuard no_gradients;
      for (const auto& [name, tensor] : parameters_of(*net))
        EXPECT_TRUE(tensor.eq(7).all().item<bool>()) << name << ", level " << level;
      group.barrier();
    });
  }
}

TEST(Units, AreLinksTakenTogetherUpToASize) {
  Net net;
  const auto parameters = parameters_of(*net);
  const Chain chain = net->chain();
  const auto names = [&](const std::vector<Unit>& units) {
    std::string text;
    for (const auto& unit : units) {
      for (const std::size_t number : unit.parameters) text += parameters[number].name + " ";
      text += "| ";
    }
    return text;
  };
  EXPECT_EQ(names(units_of(parameters, chain, {}, {}, 0, 2)),
            "l0.bias | l0.weight | l1.weight l1.bias | l2.weight l2.bias | l3.weight l3.bias | ");
  EXPECT_EQ(names(units_of(parameters, chain, {}, {}, 1 << 20, 2)),
            "l0.weight l0.bias l1.weight l1.bias l2.weight l2.bias l3.weight l3.bias | ");
  EXPECT_EQ(names(units_of(parameters, chain, {0, 2}, {"l1.bias"}, 1 << 20, 2)),
            "l1.weight | l1.bias | l0.bias | l0.weight | l2.weight l2.bias l3.weight l3.bias | ");
  for (const Unit& unit : units_of(parameters, chain, {}, {}, 0, 3)) {
    EXPECT_EQ(unit.elements % (3 * 8), 0);
    std::vector<std::int64_t> found(unit.parameters.size());
    for (int shard = 0; shard < 3; ++shard) {
      const auto slices = slices_of(unit, parameters, shard, 3);
      for (std::size_t place = 0; place < slices.size(); ++place) {
        if (slices[place].window.count > 0) {
          EXPECT_EQ(slices[place].window.first, found[place]);
        }
        found[place] += slices[place].window.count;
      }
    }
    for (std::size_t place = 0; place < found.size(); ++place)
      EXPECT_EQ(found[place], parameters[unit.parameters[place]].tensor.numel());
  }
}

}  // namespace
}  // namespace lockstep::parallel
