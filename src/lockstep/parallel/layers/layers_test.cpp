#include <chrono>
#include <limits>
#include <thread>
#include <vector>

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/comm/on_ranks.h"
#include "lockstep/core/error.h"
#include "lockstep/parallel/data_parallel.h"
#include "lockstep/parallel/late_gradients.h"
#include "lockstep/parallel/layers/batch_norm.h"
#include "lockstep/parallel/layers/convolution.h"
#include "lockstep/parallel/layers/dropout.h"
#include "lockstep/parallel/layers/embedding.h"
#include "lockstep/parallel/layers/linear.h"
#include "lockstep/parallel/layers/max_pool.h"
#include "lockstep/parallel/module_parameters.h"
#include "lockstep/parallel/random_key.h"

namespace lockstep::parallel {
namespace {

class Autocast {
 public:
  explicit Autocast(bool on) {
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, on);
  }
  ~Autocast() {
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::clear_cache();
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
};

/// Two layers that are to be the same, in float32 and in the bfloat16 of autocast: ours has its gradients at once,
/// added to those of a backward before, and when what it has left for later is computed.
template <class Mine, class Theirs>
void expect_gradients_of_libtorch(Mine mine, Theirs theirs, const torch::Tensor& values) {
  EXPECT_TRUE(torch::equal(mine->weight, theirs->weight));
  EXPECT_TRUE(torch::equal(mine->bias, theirs->bias));
  comm::testing::on_ranks({1}, [&](comm::Communicator& group) {
    const auto input = values.clone().requires_grad_(), same = values.clone().requires_grad_();
    DataParallel engine(parameters_of(*mine), group);
    for (const bool half : {false, true}) {
      const double close = half ? 1e-2 : 1e-5;
      const auto near = [&](const at::Tensor& one, const at::Tensor& other) {
        return (one - other).norm().template item<double>() <= close * other.norm().template item<double>();
      };
      const auto backward = [half](auto& layer, const at::Tensor& of) {
        const auto output = [&] {
          const Autocast autocast(half);
          return layer(of);
        }();
        EXPECT_EQ(output.scalar_type(), half ? torch::kBFloat16 : torch::kFloat);
        output.sin().sum().backward();
      };
      theirs->zero_grad();
      for (const auto& tensor : {input, same}) tensor.mutable_grad() = at::Tensor();
      engine.drop_gradients();
      engine.reduce_in_backward(false);
      for (const bool last : {false, true}) {
        engine.reduce_in_backward(last);
        backward(mine, input);
        backward(theirs, same);
        EXPECT_TRUE(near(mine->weight.grad(), theirs->weight.grad())) << half;
      }
      engine.finish();
      EXPECT_TRUE(near(mine->bias.grad(), theirs->bias.grad())) << half;
      EXPECT_TRUE(near(input.grad(), same.grad())) << half;

      engine.drop_gradients();
      LateGradients late;
      {
        const LateGradients::Deferral deferral(late);
        backward(mine, input);
      }
      EXPECT_TRUE(late.holds(mine->weight));
      EXPECT_FALSE(mine->weight.grad().defined());
      late.compute();
      engine.finish();
      EXPECT_TRUE(near(2 * mine->weight.grad(), theirs->weight.grad())) << half;
    }
    const torch::NoGradGuard no_gradients;
    EXPECT_TRUE(torch::equal(mine(input), theirs(same)));
  });
}

TEST(Linear, HasTheGradientsOfLibtorch) {
  torch::manual_seed(2);
  Linear mine(6, 4);
  torch::manual_seed(2);
  torch::nn::Linear theirs(6, 4);
  expect_gradients_of_libtorch(mine, theirs, torch::randn({2, 3, 6}));
}

TEST(Convolution, HasTheGradientsOfLibtorch) {
  torch::manual_seed(2);
  Convolution mine(ConvolutionShape{.inputs = 3, .outputs = 4, .kernel = 3, .stride = 2, .padding = 1});
  torch::manual_seed(2);
  torch::nn::Conv2d theirs(torch::nn::Conv2dOptions(3, 4, 3).stride(2).padding(1));
  expect_gradients_of_libtorch(mine, theirs, torch::randn({2, 3, 7, 6}));
}

TEST(Embedding, AddsTheGradientsOfWordsAndScores) {
  comm::testing::on_ranks({1}, [](comm::Communicator& group) {
    Embedding mine(7, 4);
    const at::Tensor same = mine->weight.detach().clone().requires_grad_(), words = torch::tensor({3, 0, 3, 6});
    torch::linear(torch::tanh(torch::embedding(same, words)), same).sin().sum().backward();
    DataParallel engine(parameters_of(*mine), group);
    const auto backward = [&] { mine->scores(torch::tanh(mine(words))).sin().sum().backward(); };
    const auto expect_same = [&] { EXPECT_TRUE(torch::allclose(mine->weight.grad(), same.grad(), 1e-5, 1e-6)); };
    backward();
    engine.finish();
    expect_same();

    engine.drop_gradients();
    LateGradients late;
    {
      const LateGradients::Deferral deferral(late);
      backward();
    }
    EXPECT_TRUE(late.holds(mine->weight));
    late.compute();
    engine.finish();
    expect_same();
  });
}

/// Few values, so that ties are frequent, and some that are no numbers or have no end.
torch::Tensor images_with_ties(std::vector<std::int64_t> shape) {
  auto images = torch::randint(-3, 4, shape).to(torch::kFloat);
  images.masked_fill_(torch::rand(shape) < 0.05, std::numeric_limits<float>::quiet_NaN());
  images.masked_fill_(torch::rand(shape) < 0.05, -std::numeric_limits<float>::infinity());
  return images;
}

TEST(MaxPool, HasTheBitsOfLibtorch) {
  torch::manual_seed(5);
  const auto same = [](const torch::Tensor& one, const torch::Tensor& other) {
    return torch::allclose(one, other, 0, 0, /*equal_nan=*/true);
  };
  // The last three are left to libtorch: odd sizes, no samples.
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{3, 2, 24, 24},
                                                 {1, 1, 2, 2},
                                                 {2, 5, 2, 66},
                                                 {64, 3, 34, 6},
                                                 {2, 2, 5, 8},
                                                 {2, 2, 8, 7},
                                                 {0, 2, 4, 4}}) {
    const auto mine = images_with_ties(shape).requires_grad_(), theirs = mine.detach().clone().requires_grad_();
    const auto pooled = max_pool_2x2(mine), expected = torch::max_pool2d(theirs, {2, 2});
    EXPECT_TRUE(same(pooled, expected)) << mine.sizes();
    const auto slopes = torch::randn(expected.sizes());
    pooled.backward(slopes);
    expected.backward(slopes);
    EXPECT_TRUE(same(mine.grad(), theirs.grad())) << mine.sizes();
  }
}

TEST(MaxPool, TakesWhatIsNotContiguousOrNotFloat) {
  const auto images = torch::randn({2, 4, 6, 3});
  const auto turned = images.permute({0, 3, 1, 2});
  EXPECT_TRUE(torch::equal(max_pool_2x2(turned), torch::max_pool2d(turned.contiguous(), {2, 2})));
  const auto exact = turned.to(torch::kDouble);
  EXPECT_TRUE(torch::equal(max_pool_2x2(exact), torch::max_pool2d(exact, {2, 2})));
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

TEST(Dropout, MakesUpForWhatIsDroppedInEveryType) {
  EXPECT_THROW(Dropout(1.0), Error);
  Dropout drop(0.1);
  for (const auto type : {torch::kFloat, torch::kDouble, torch::kBFloat16}) {
    const auto output = drop(torch::ones({1000}, type));
    EXPECT_EQ(output.scalar_type(), type);
    EXPECT_TRUE(torch::equal(output.max(), torch::full({}, 1 / 0.9, type))) << type;
    EXPECT_EQ(output.min().item<double>(), 0) << type;
  }
}

TEST(BatchNorm, IsThatOfLibtorch) {
  torch::manual_seed(4);
  for (const auto& shape : {std::vector<std::int64_t>{6, 3}, std::vector<std::int64_t>{2, 3, 4, 5}}) {
    BatchNorm mine(3);
    torch::nn::BatchNorm1d of_rows(3);
    torch::nn::BatchNorm2d of_images(3);
    const auto theirs = [&](const torch::Tensor& input) {
      return input.dim() == 2 ? of_rows(input) : of_images(input);
    };
    for (const bool training : {true, true, false}) {
      mine->train(training);
      of_rows->train(training);
      of_images->train(training);
      const auto input = torch::randn(shape);
      EXPECT_TRUE(torch::equal(mine(input), theirs(input)));
    }
    const auto names = buffers_of(*mine), wanted = shape.size() == 2 ? buffers_of(*of_rows) : buffers_of(*of_images);
    ASSERT_EQ(names.size(), wanted.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
      EXPECT_EQ(names[i].name, wanted[i].name);
      EXPECT_TRUE(torch::equal(names[i].tensor, wanted[i].tensor)) << names[i].name;
    }
  }
  BatchNorm norm(3);
  EXPECT_THROW(norm(torch::ones({1, 3})), Error);
  EXPECT_THROW(norm(torch::ones({2, 4})), Error);
}

struct NormedImpl : torch::nn::Module {
  NormedImpl() : first(register_module("first", BatchNorm(3))), second(register_module("second", BatchNorm(3))) {
    const torch::NoGradGuard no_gradients;
    for (auto& norm : {first, second}) {
      norm->weight.copy_(torch::tensor({0.5, 1.5, -2.0}));
      norm->bias.copy_(torch::tensor({0.1, -0.2, 0.3}));
    }
    to(torch::kDouble);
  }
  torch::Tensor forward(const torch::Tensor& input) { return second(torch::tanh(first(input))); }
  BatchNorm first, second;
};
TORCH_MODULE(Normed);

/// Far from zero, where sums of squares would lose digits.
torch::Tensor images() { return torch::linspace(0, 40, 12 * 3 * 4, torch::kDouble).sin().view({12, 3, 2, 2}) + 100; }
torch::Tensor weighted_sum(const torch::Tensor& output, std::int64_t first) {
  const auto factors = (torch::arange(output.numel(), torch::kDouble) + first * 12).cos().view_as(output);
  return (output * factors).sum();
}

class SyncedEverywhere : public testing::TestWithParam<comm::testing::Ranks> {};
INSTANTIATE_TEST_SUITE_P(Ranks, SyncedEverywhere, testing::ValuesIn(comm::testing::cases()));

TEST_P(SyncedEverywhere, BatchNormIsThatOfOneProcess) {
  comm::testing::on_ranks(GetParam(), [](comm::Communicator& group) {
    // Rank r of n takes samples [r² · 12 / n², (r + 1)² · 12 / n²): uneven, and of many ranks the first has none.
    const std::int64_t n = group.size(), r = group.rank();
    const std::int64_t first = r * r * 12 / (n * n), last = (r + 1) * (r + 1) * 12 / (n * n);
    Normed mine, alone;
    DataParallel engine(parameters_of(*mine), group);
    const SyncedBatchNorms synced(*mine, group);
    const auto near = [](const torch::Tensor& one, const torch::Tensor& other) {
      return one.numel() == 0 ||
             (one - other).abs().max().item<double>() <= 1e-12 * (1 + other.abs().max().item<double>());
    };
    for (int step = 0; step < 3; ++step) {
      const auto whole = (images() * (1 + step)).detach().requires_grad_();
      const auto part = whole.detach().slice(0, first, last).clone().requires_grad_();
      engine.drop_gradients();
      alone->zero_grad();
      const auto wanted = alone(whole), output = mine(part);
      weighted_sum(wanted, 0).backward();
      weighted_sum(output, first).backward();
      engine.finish();
      EXPECT_TRUE(near(output, wanted.slice(0, first, last)));
      EXPECT_TRUE(near(part.grad(), whole.grad().slice(0, first, last)));
      const auto parameters = parameters_of(*mine), others = parameters_of(*alone);
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        EXPECT_TRUE(near(parameters[i].tensor.grad(), others[i].tensor.grad())) << parameters[i].name;
      }
      const auto buffers = buffers_of(*mine), running = buffers_of(*alone);
      for (std::size_t i = 0; i < buffers.size(); ++i) {
        EXPECT_TRUE(near(buffers[i].tensor.to(torch::kDouble), running[i].tensor.to(torch::kDouble)))
            << buffers[i].name;
        const std::string bytes(static_cast<const char*>(buffers[i].tensor.const_data_ptr()),
                                buffers[i].tensor.nbytes());
        for (const auto& other : group.gather_bytes(bytes)) EXPECT_EQ(other, bytes) << "running statistics differ";
      }
    }
    // Evaluation needs nobody.
    mine->eval();
    alone->eval();
    const bool same = group.rank() > 0 || near(mine(images()), alone(images()));
    EXPECT_TRUE(same);
  });
}

TEST(SyncedBatchNorms, TellHowLongTheyWaited) {
  comm::testing::on_ranks({2}, [](comm::Communicator& group) {
    Normed normed;
    const SyncedBatchNorms synced(*normed, group);
    const auto output = normed(images());
    const double before = synced.waited_s();
    EXPECT_GT(before, 0);
    if (group.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    output.sum().backward();
    EXPECT_GT(synced.waited_s() - before, group.rank() == 0 ? 0.1 : 0.0);
  });
}

TEST(SyncedBatchNorms, SayWhatTheyCannotBe) {
  comm::testing::on_ranks({2}, [](comm::Communicator& group) {
    torch::nn::Sequential with_theirs(torch::nn::Linear(3, 3), torch::nn::BatchNorm1d(3)), with_none(Linear(3, 3));
    const auto message = [&group](torch::nn::Module& model) -> std::string {
      try {
        const SyncedBatchNorms synced(model, group);
      } catch (const Error& error) {
        EXPECT_EQ(error.fault(), Fault::Usage);
        return error.message();
      }
      return "";
    };
    EXPECT_NE(message(*with_theirs).find("'1' is a torch::nn::BatchNorm"), std::string::npos);
    EXPECT_TRUE(SyncedBatchNorms(*with_none, group).empty());
    Normed normed;
    {
      const SyncedBatchNorms synced(*normed, group);
      EXPECT_FALSE(synced.empty());
    }
    if (group.rank() == 0) (void)normed(images());  // alone again
  });
}

}  // namespace
}  // namespace lockstep::parallel
