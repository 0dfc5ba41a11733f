#include "lockstep/parallel/data_parallel.h"

#include <atomic>
#include <cmath>
#include <latch>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/comm/on_ranks.h"
#include "lockstep/comm/tree.h"
#include "lockstep/core/error.h"
#include "lockstep/core/testing.h"
#include "lockstep/parallel/bucket_optimizer.h"
#include "lockstep/parallel/layers/linear.h"
#include "lockstep/parallel/module_parameters.h"

namespace lockstep::parallel {
namespace {

using comm::Communicator;
using comm::testing::on_ranks;
using comm::testing::Ranks;

constexpr std::int64_t kRows = 24, kInputs = 10, kHidden = 16, kOutputs = 3;

struct NetImpl : torch::nn::Module {
  NetImpl()
      : first(register_module("first", Linear(kInputs, kHidden))),
        second(register_module("second", torch::nn::Linear(kHidden, kHidden))),
        unused(register_module("unused", Linear(5, 5))),
        last(register_module("last", Linear(kHidden, kOutputs, false))) {
    to(torch::kDouble);
  }
  torch::Tensor forward(const torch::Tensor& input) { return last(torch::tanh(second(torch::tanh(first(input))))); }
  Linear first;
  torch::nn::Linear second;
  Linear unused, last;
};
TORCH_MODULE(Net);

Net make_net(std::uint64_t seed = 1) {
  static std::mutex mutex;  // ranks are threads, and share torch's generator
  const std::lock_guard lock(mutex);
  torch::manual_seed(seed);
  return Net();
}

torch::Tensor inputs() { return torch::linspace(-1, 2, kRows * kInputs, torch::kDouble).view({kRows, kInputs}).sin(); }

/// Uneven: rank r of n takes rows [r² · rows / n², (r + 1)² · rows / n²).
torch::Tensor rows_of(const Communicator& group) {
  const std::int64_t n = group.size(), r = group.rank();
  return inputs().slice(0, r * r * kRows / (n * n), (r + 1) * (r + 1) * kRows / (n * n));
}

void backward(Net& net, const torch::Tensor& rows) { net(rows).square().sum().backward(); }

/// By name; undefined ones left out.
std::map<std::string, torch::Tensor> gradients(Net& net) {
  std::map<std::string, torch::Tensor> result;
  for (const auto& [name, tensor] : parameters_of(*net)) {
    if (tensor.grad().defined()) result[name] = tensor.grad().clone();
  }
  return result;
}

std::map<std::string, torch::Tensor> wanted() {
  Net net = make_net();
  backward(net, inputs());
  return gradients(net);
}

void expect_wanted(Net& net, double factor = 1) {
  const auto mine = gradients(net);
  for (const auto& [name, gradient] : wanted()) {
    EXPECT_LT((mine.at(name) - factor * gradient).norm().item<double>(), 1e-12 * gradient.norm().item<double>())
        << name;
  }
}

class EveryGroup : public testing::TestWithParam<Ranks> {};
INSTANTIATE_TEST_SUITE_P(Ranks, EveryGroup, testing::ValuesIn(comm::testing::cases()));

TEST_P(EveryGroup, SumsGradientsOfUnevenRanks) {
  on_ranks(GetParam(), [](Communicator& group) {
    Net net = make_net(1 + static_cast<std::uint64_t>(group.rank()));  // weights become those of rank 0
    // A bucket per parameter or two.
    DataParallel engine(parameters_of(*net), group, {.buckets = {.first_bytes = 64, .bytes = 1024}});
    for (int step = 0; step < 3; ++step) {
      engine.drop_gradients();
      backward(net, rows_of(group));
      engine.finish();
      expect_wanted(net);
    }
    engine.check_equal();
  });
}

TEST_P(EveryGroup, WaitsForEveryUseOfALayer) {
  on_ranks(GetParam(), [](Communicator& group) {
    Net net = make_net();
    Linear& layer = net->first;
    const torch::Tensor rows = inputs();
    const auto backward_of_uses = [&](int uses) {
      torch::Tensor loss = torch::zeros({}, torch::kDouble);
      for (int use = 1; use <= uses; ++use) loss = loss + use * layer(rows).square().sum();
      loss.backward();
    };
    backward_of_uses(2);
    const torch::Tensor once = layer->weight.grad().clone();
    layer->zero_grad();
    DataParallel engine({{"weight", layer->weight}}, group);
    for (int step = 0; step < 3; ++step) {
      engine.drop_gradients();
      // In the first step most ranks have no samples, and do not see how often it is used.
      if (step > 0 || group.rank() == 0) backward_of_uses(2);
      engine.finish();
      EXPECT_TRUE(torch::allclose(layer->weight.grad(), (step == 0 ? 1 : group.size()) * once, 1e-12)) << step;
    }
    engine.drop_gradients();
    try {
      backward_of_uses(3);
      FAIL() << "nobody noticed";
    } catch (const Error& error) {
      EXPECT_NE(error.message().find("'weight' is used more often"), std::string::npos) << error.message();
    }
    engine.finish();
  });
}

TEST_P(EveryGroup, MakesNewWeightsInTheSameSweep) {
  on_ranks(GetParam(), [](Communicator& group) {
    Net net = make_net(), plain = make_net();
    DataParallel engine(parameters_of(*net), group, {.buckets = {.first_bytes = 64, .bytes = 1024}});
    DataParallel other(parameters_of(*plain), group, {.buckets = {.first_bytes = 64, .bytes = 1024}});
    for (int step = 0; step < 4; ++step) {
      engine.drop_gradients();
      other.drop_gradients();
      backward(net, rows_of(group));
      backward(plain, rows_of(group));
      if (engine.lay_out()) {
        engine.update_with([&](std::size_t bucket, std::int64_t first, std::int64_t count, const void* gradients) {
          double* weights = engine.buckets().all()[bucket].weights.data_ptr<double>() + first;
          for (std::int64_t i = 0; i < count; ++i) weights[i] -= 0.01 * static_cast<const double*>(gradients)[i];
        });
      }
      engine.finish();
      other.finish();
      const torch::NoGradGuard no_gradients;
      for (const auto& [name, tensor] : parameters_of(*plain)) tensor.sub_(0.01 * tensor.grad());
      const auto mine = parameters_of(*net), theirs = parameters_of(*plain);
      for (std::size_t number = 0; number < mine.size(); ++number) {
        EXPECT_TRUE(mine[number].tensor.equal(theirs[number].tensor)) << mine[number].name << " in step " << step;
      }
    }
    engine.check_equal();
  });
}

TEST(DataParallel, IsNotUpdatedOnceItIsGone) {
  std::latch gone(1);
  std::atomic<int> updates_of_rank_0 = 0;
  on_ranks({2}, [&](Communicator& group) {
    Linear net = make_net()->first;
    std::optional<DataParallel> engine(std::in_place, parameters_of(*net), group);
    const auto backward_of_step = [&] {
      engine->drop_gradients();
      net(rows_of(group)).square().sum().backward();
    };
    backward_of_step();
    engine->lay_out();
    engine->update_with([&](std::size_t, std::int64_t, std::int64_t, const void*) {
      if (group.rank() == 0) ++updates_of_rank_0;
    });
    engine->finish();
    const int before = updates_of_rank_0;
    if (group.rank() == 0) {
      backward_of_step();  // gradients are on their way, and then something throws
      engine.reset();
      gone.count_down();
      group.barrier();
      EXPECT_GT(before, 0);
      EXPECT_EQ(updates_of_rank_0, before);
    } else {
      gone.wait();
      backward_of_step();
      engine->finish();
      group.barrier();
    }
  });
}

TEST_P(EveryGroup, AddsUpBeforeItReduces) {
  on_ranks(GetParam(), [](Communicator& group) {
    Net net = make_net();
    DataParallel engine(parameters_of(*net), group);
    for (int step = 0; step < 2; ++step) {
      engine.drop_gradients();
      for (int part = 0; part < 3; ++part) {
        engine.reduce_in_backward(part == 2);
        backward(net, rows_of(group));
      }
      engine.finish();
      expect_wanted(net, 3);
    }
  });
}

TEST_P(EveryGroup, KnowsWhatBackwardDidNotReach) {
  on_ranks(GetParam(), [](Communicator& group) {
    Net net = make_net();
    DataParallel engine(parameters_of(*net), group);
    // A rank without samples takes part nevertheless, and learns from the others what there is to come.
    if (group.rank() == 0) backward(net, inputs());
    engine.finish();
    expect_wanted(net);
    const std::vector<std::string> never = {"unused.weight", "unused.bias"};
    EXPECT_EQ(engine.unused(), never);
    EXPECT_EQ(net->unused->weight.grad().abs().sum().item<double>(), 0);

    engine.drop_gradients();
    backward(net, rows_of(group));
    engine.finish();
    expect_wanted(net);
  });
}

TEST_P(EveryGroup, HasTheSameBitsWhoeverHoldsTheShards) {
  constexpr int kShards = 8;
  static std::mutex mutex;
  static std::map<std::string, torch::Tensor> first;  // gradients of whichever group came first
  on_ranks(GetParam(), [](Communicator& group) {
    Net net = make_net();
    const auto own = comm::shards_of_rank(kShards, group.size(), group.rank());
    DataParallel engine(parameters_of(*net), group, {.buckets = {.first_bytes = 64, .bytes = 1024}});
    for (int step = 0; step < 3; ++step) {
      engine.drop_gradients();
      for (int shard = 0; shard < own.count; ++shard) {
        engine.begin_shard(shard, own.count);
        const int begin = (own.first + shard) * static_cast<int>(kRows) / kShards;
        // The second shard has no samples.
        if (own.first + shard != 1) backward(net, inputs().slice(0, begin, begin + kRows / kShards));
      }
      engine.finish();
      const auto mine = gradients(net);
      const std::lock_guard lock(mutex);
      if (first.empty()) first = mine;
      for (const auto& [name, gradient] : mine) EXPECT_TRUE(torch::equal(gradient, first.at(name))) << name;
    }
  });
}

TEST_P(EveryGroup, LaysBucketsOutAsGradientsArrive) {
  on_ranks(GetParam(), [](Communicator& group) {
    Net net = make_net();
    DataParallel engine(parameters_of(*net), group);
    backward(net, rows_of(group));
    engine.finish();
    std::vector<std::string> order;
    for (const auto& bucket : engine.buckets().all()) {
      for (const std::size_t number : bucket.parameters) order.push_back(engine.parameters()[number].name);
    }
    EXPECT_EQ(order.front(), "last.weight");
    EXPECT_TRUE(order.back() == "unused.weight") << order.back();
    expect_wanted(net);
    const auto& first = engine.buckets().all()[0];
    EXPECT_EQ(net->last->weight.data_ptr(), first.weights.data_ptr());
    EXPECT_EQ(net->last->weight.grad().data_ptr(), first.gradients.data_ptr());
  });
}

TEST_P(EveryGroup, LeavesFrozenParametersAlone) {
  on_ranks(GetParam(), [](Communicator& group) {
    Net net = make_net();
    net->second->weight.requires_grad_(false);
    DataParallel engine(parameters_of(*net), group);
    backward(net, rows_of(group));
    engine.finish();
    EXPECT_FALSE(net->second->weight.grad().defined());
    EXPECT_EQ(engine.parameters().size(), parameters_of(*net).size() - 1);
  });
}

struct WordsImpl : torch::nn::Module {
  explicit WordsImpl(bool sparse)
      : words(register_module("words", torch::nn::Embedding(torch::nn::EmbeddingOptions(50, 4).sparse(sparse)))),
        last(register_module("last", Linear(4, 2))) {
    to(torch::kDouble);
  }
  torch::Tensor forward(const torch::Tensor& tokens) { return last(torch::tanh(words(tokens))); }
  torch::nn::Embedding words;
  Linear last;
};
TORCH_MODULE(Words);

Words make_words(bool sparse) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  torch::manual_seed(3);
  return Words(sparse);
}

/// Uneven, some twice on a rank and on several ranks; rank 1 has none, and in step 2 nobody has.
torch::Tensor tokens_of(int rank, int step) {
  const std::int64_t count = rank == 1 || step == 2 ? 0 : 3 + 5 * rank;
  return (torch::arange(count, torch::kLong) * (rank + 2) + step * 7) % 23;
}

/// The embedding after some steps, and its gradient of the last one.
std::pair<torch::Tensor, torch::Tensor> stepped(Communicator& group, const std::string& optimizer, bool sparse) {
  Words model = make_words(sparse);
  DataParallel engine(parameters_of(*model), group, {.sparse = sparse_parameters_of(*model)});
  std::optional<BucketOptimizer> stepper;
  for (int step = 0; step < 5; ++step) {
    engine.drop_gradients();
    const auto tokens = tokens_of(group.rank(), step);
    if (tokens.numel() > 0) model(tokens).square().sum().backward();
    engine.finish();
    EXPECT_EQ(model->words->weight.grad().is_sparse(), sparse);
    if (!stepper) {
      stepper.emplace(make_optimizer(optimizer, Config(), "optimizer"), engine.parameters(), engine.buckets(),
                      std::vector<ParameterGroup>{{}}, group);
    }
    stepper->step(0.1, 0.5);
    engine.check_equal();
  }
  const auto weight = model->words->weight;
  return {weight.detach().clone(), sparse ? weight.grad().to_dense() : weight.grad().clone()};
}

TEST_P(EveryGroup, SumsRowsOfSparseGradients) {
  on_ranks(GetParam(), [](Communicator& group) {
    for (const std::string optimizer : {"sgd", "adagrad"}) {
      const auto sparse = stepped(group, optimizer, true), dense = stepped(group, optimizer, false);
      EXPECT_TRUE(torch::allclose(sparse.first, dense.first, 1e-12, 1e-12)) << optimizer;
      EXPECT_TRUE(torch::allclose(sparse.second, dense.second, 1e-12, 1e-12)) << optimizer;
      EXPECT_GT(dense.second.abs().max().item<double>(), 0);
    }
  });
}

TEST(SparseGradients, LetAdamPassOverRows) {
  on_ranks({1}, [](Communicator& group) {
    const auto weight = torch::ones({3, 2}, torch::kDouble).requires_grad_();
    DataParallel engine({{"weight", weight}}, group, {.sparse = {"weight"}});
    std::unique_ptr<BucketOptimizer> optimizer;
    // As SparseAdam: row 2 has a gradient in steps 1 and 3, row 0 in step 2, row 1 never.
    double mean = 0, square = 0, wanted = 1;
    for (int step = 1; step <= 3; ++step) {
      engine.drop_gradients();
      const auto tokens = torch::tensor({step == 2 ? 0 : 2}, torch::kLong);
      (torch::embedding(weight, tokens, -1, false, /*sparse=*/true) * (0.3 * step)).sum().backward();
      engine.finish();
      if (!optimizer) {
        optimizer =
            std::make_unique<BucketOptimizer>(make_optimizer("adam", Config(), "optimizer"), engine.parameters(),
                                              engine.buckets(), std::vector<ParameterGroup>{{}}, group);
      }
      optimizer->step(0.01, 1);
      if (step == 2) continue;
      mean = 0.9 * mean + 0.1 * 0.3 * step;
      square = 0.999 * square + 0.001 * 0.09 * step * step;
      wanted -= 0.01 * mean / (1 - std::pow(0.9, step)) / (std::sqrt(square / (1 - std::pow(0.999, step))) + 1e-8);
    }
    EXPECT_NEAR(weight[2][1].item<double>(), wanted, 1e-14);
    EXPECT_EQ(weight[1][0].item<double>(), 1);
    EXPECT_EQ(optimizer->states()[0].tensor[1][0].item<double>(), 0);
    EXPECT_NE(weight[0][0].item<double>(), 1);
  });
}

TEST(SparseGradients, AddUpBeforeTheyAreSummed) {
  on_ranks({3}, [](Communicator& group) {
    const auto gradient = [&group](bool sparse, bool told) {
      Words model = make_words(sparse);
      DataParallel engine(parameters_of(*model), group,
                          {.sparse = told ? sparse_parameters_of(*model) : std::set<std::string>{}});
      for (int step = 0; step < 2; ++step) {
        engine.drop_gradients();
        for (int part = 0; part < 3; ++part) {
          engine.reduce_in_backward(part == 2);
          const auto tokens = tokens_of(group.rank(), part + step);
          if (tokens.numel() > 0) model(tokens).square().sum().backward();
        }
        engine.finish();
      }
      const auto result = model->words->weight.grad();
      return result.is_sparse() ? result.to_dense() : result.clone();
    };
    const auto wanted = gradient(false, true);
    EXPECT_TRUE(torch::allclose(gradient(true, true), wanted, 1e-12, 1e-12));
    // An engine that was not told of it makes them dense.
    EXPECT_TRUE(torch::allclose(gradient(true, false), wanted, 1e-12, 1e-12));
  });
}

TEST(SparseGradients, SayWhatTheyCannotDo) {
  const auto message = [](const std::function<void(Communicator&)>& body) -> std::string {
    try {
      on_ranks({2}, body);
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Usage);
      return error.message();
    }
    return "";
  };
  const auto optimizer = [](Communicator& group, const char* recipe, double decay) {
    Words words = make_words(true);
    const DataParallel engine(parameters_of(*words), group, {.sparse = sparse_parameters_of(*words)});
    const Config config = Config::from_text(recipe);
    const BucketOptimizer made(make_optimizer(config.get("optimizer.name", "sgd"), config, "optimizer"),
                               engine.parameters(), engine.buckets(), {{.patterns = {}, .weight_decay = decay}}, group);
  };
  for (const char* recipe : {"optimizer.momentum = 0.9", "optimizer.name = 'lamb'", "optimizer.name = 'rmsprop'"}) {
    const auto text = message([&](Communicator& group) { optimizer(group, recipe, 0); });
    EXPECT_NE(text.find("'words.weight' has sparse gradients"), std::string::npos) << recipe;
  }
  const auto decay = message([&](Communicator& group) { optimizer(group, "", 0.1); });
  EXPECT_NE(decay.find("optimizer.no_decay = [\"words.weight\"]"), std::string::npos) << decay;
  const auto exact = message([](Communicator& group) {
    Words words = make_words(true);
    DataParallel engine(parameters_of(*words), group, {.sparse = sparse_parameters_of(*words)});
    engine.begin_shard(0, 2);
  });
  EXPECT_NE(exact.find("set exact = false"), std::string::npos) << exact;
  const auto shared = message([](Communicator& group) {
    Words words = make_words(true);
    DataParallel engine(parameters_of(*words), group, {.sparse = sparse_parameters_of(*words)});
    (words(tokens_of(0, 0)).sum() + words->words->weight.sum()).backward();
  });
  EXPECT_NE(shared.find("another layer has a part"), std::string::npos) << shared;
  const auto flat = message([](Communicator& group) {
    const DataParallel engine({{"flat", torch::ones({3}).requires_grad_()}}, group, {.sparse = {"flat"}});
  });
  EXPECT_NE(flat.find("has 1 dims, not rows"), std::string::npos) << flat;
}

TEST(DataParallel, NamesTheRankWhoseWeightsDrifted) {
  try {
    on_ranks({4}, [](Communicator& group) {
      Net net = make_net();
      const DataParallel engine(parameters_of(*net), group);
      const torch::NoGradGuard no_gradients;
      if (group.rank() == 2) net->last->weight.view(-1)[0] += 1e-12;
      engine.check_equal();
    });
    FAIL() << "nobody noticed";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.message()).find("weights of rank 2 are not those of the other 3 ranks"),
              std::string::npos)
        << error.message();
  }
}

TEST(DataParallel, RefusesModelsThatDiffer) {
  try {
    on_ranks({2}, [](Communicator& group) {
      const torch::nn::Linear layer(3, 4 + group.rank());
      const DataParallel engine(parameters_of(*layer), group);
    });
    FAIL() << "nobody noticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Usage);
    EXPECT_NE(std::string(error.message()).find("weight [5, 3] float32 here, weight [4, 3] float32 there"),
              std::string::npos)
        << error.message();
  }
}

TEST(DataParallel, LetsGoOfTheModel) {
  on_ranks({1}, [](Communicator& group) {
    Net net = make_net();
    {
      const DataParallel engine(parameters_of(*net), group);
    }
    backward(net, inputs());
    expect_wanted(net);
  });
}

TEST(DataParallel, RefusesWhatItCannotTrain) {
  const auto refusal = [](const Parameters& parameters) {
    return test::message_of([&] { (void)trained(parameters); }, Fault::Usage);
  };
  const auto weight = torch::zeros({2}).requires_grad_();
  EXPECT_EQ(refusal({{"wte.weight", weight}, {"lm_head.weight", weight}}),
            "'lm_head.weight' is 'wte.weight' under a second name: register the module once and name it in both links");
  const std::string none = refusal({{"wte.weight", torch::zeros({2})}, {"wpe.weight", torch::zeros({2})}});
  for (const char* part : {"wte.weight, wpe.weight", "there is nothing to train", "parallel.cuts", "model.frozen"})
    EXPECT_NE(none.find(part), std::string::npos) << none;
}

}  // namespace
}  // namespace lockstep::parallel
