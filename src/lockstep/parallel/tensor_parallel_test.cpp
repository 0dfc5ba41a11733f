// Layers that are split over ranks give what one process gives, and their parts of its gradients.
#include "lockstep/parallel/tensor_parallel.h"

#include <chrono>
#include <limits>
#include <optional>
#include <string>
#include <thread>

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/comm/on_ranks.h"
#include "lockstep/core/error.h"
#include "lockstep/core/testing.h"
#include "lockstep/parallel/cross_entropy.h"
#include "lockstep/parallel/data_parallel.h"
#include "lockstep/parallel/layers/batch_norm.h"
#include "lockstep/parallel/layers/convolution.h"
#include "lockstep/parallel/layers/dropout.h"
#include "lockstep/parallel/layers/embedding.h"
#include "lockstep/parallel/layers/layer_norm.h"
#include "lockstep/parallel/layers/linear.h"
#include "lockstep/parallel/module_parameters.h"
#include "lockstep/parallel/random_key.h"
#include "lockstep/parallel/time_slices.h"
#include "lockstep/parallel/waiting.h"

namespace lockstep::parallel {
namespace {

using comm::Communicator;
using comm::testing::on_ranks;

at::Tensor part_of(const at::Tensor& whole, const ParameterPart& part) {
  at::Tensor result = torch::empty(part.shape(), whole.options());
  for (const auto& run : part.runs())
    result.view(-1)
        .narrow(0, run.of_part, run.count)
        .copy_(whole.contiguous().view(-1).narrow(0, run.of_whole, run.count));
  return result;
}

struct NetImpl : torch::nn::Module {
  NetImpl() { name_layers(*this); }
  at::Tensor forward(const at::Tensor& words) {  // [sample, 3]
    const auto both = first(embedding(words).flatten(1)).chunk(2, 1);
    const at::Tensor gated = both[0] * torch::sigmoid(both[1]);
    at::Tensor values = drop(torch::stack({gated, -2 * gated}, 1).unsqueeze(1)).sum({1, 2});  // of no image
    values = torch::tanh(second(values)).view({-1, 2, 3, 3});
    values = inner(drop_channels(torch::relu(norm(outer(values)))));
    return head(values.flatten(1));
  }
  Embedding embedding = register_module("embedding", Embedding(11, 4));
  Linear first = register_module("first", Linear(12, 28, true, 2));
  Dropout drop = register_module("drop", Dropout(0.3));
  Linear second = register_module("second", Linear(14, 18));
  Convolution outer =
      register_module("outer", Convolution(ConvolutionShape{.inputs = 2, .outputs = 5, .kernel = 3, .padding = 1}));
  BatchNorm norm = register_module("norm", BatchNorm(5));
  Dropout drop_channels = register_module("drop_channels", Dropout(0.3));
  Convolution inner = register_module("inner", Convolution(ConvolutionShape{.inputs = 5, .outputs = 3, .kernel = 3}));
  Linear head = register_module("head", Linear(3, 7));
};
TORCH_MODULE(Net);

const TensorPlan kPlan{
    {"embedding", "vocabulary"}, {"first", "column"}, {"drop", "column"},           {"second", "row"},
    {"outer", "column"},         {"norm", "column"},  {"drop_channels", "channel"}, {"inner", "row"},
    {"head", "column"}};

class Split : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Split, ::testing::Values(1, 2, 3));

TEST_P(Split, HasTheOutputsAndGradientsOfOneProcess) {
  const auto words = torch::arange(24).view({8, 3}).remainder(11), targets = torch::arange(8).remainder(7);
  // Bands of 14 and an odd number of ranks do not come out even: both must be right.
  on_ranks({GetParam()}, [&](Communicator& group) {
    const auto loss_of = [&](Net& net, const ClassSplit& split) {
      random_key() = {5, 1, 4};
      return cross_entropy_sum(net(words), targets, 0.1, split);
    };
    const auto made = [&](bool split) {
      const DeferredFilling later;
      Net net;
      if (split) split_layers(*net, kPlan, group);
      net->to(torch::kDouble);
      fill_layers(*net, 3);
      return net;
    };
    Net whole = made(false), mine = made(true);
    const auto alone = group.split(group.rank());
    const DataParallel engine_of_whole(parameters_of(*whole), *alone), engine(parameters_of(*mine), *alone);
    const auto expected = loss_of(whole, {});
    expected.backward();
    const ClassSplit split{mine->head->outputs_over(), mine->head->first_output(), 7};
    const auto loss = loss_of(mine, split);
    loss.backward();
    EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-10);
    const auto parts = parts_of(*mine);
    const auto all = whole->named_parameters();
    for (const auto& [name, parameter] : parameters_of(*mine)) {
      const auto same = part_of(all[name].grad(), parts.at(name));
      EXPECT_EQ(parameter.sizes(), same.sizes()) << name;
      EXPECT_TRUE(torch::allclose(parameter.grad(), same, 1e-9, 1e-12)) << name;
    }
    EXPECT_TRUE(
        torch::allclose(mine->norm->running_var, part_of(whole->norm->running_var, parts.at("norm.running_var"))));
    // Evaluated, too, where no gradients go straight to their places.
    const torch::NoGradGuard no_gradients;
    whole->eval();
    mine->eval();
    EXPECT_NEAR(loss_of(mine, split).item<double>(), loss_of(whole, {}).item<double>(), 1e-10);
    EXPECT_TRUE(torch::allclose(gather_scores(mine(words), split), whole(words), 1e-10));
  });
}

TEST(SplitLayers, RefuseADropoutThatWouldDrawOneMaskForDifferentValues) {
  for (const int ranks : {2, 3}) {
    on_ranks({ranks}, [](Communicator& group) {
      TensorPlan plan = kPlan;
      std::erase_if(plan, [](const auto& entry) { return entry.first == "drop"; });
      Net net;
      split_layers(*net, plan, group);
      const auto words = torch::arange(24).view({8, 3}).remainder(11);
      const auto message = test::message_of([&] { (void)net(words); }, Fault::Usage);
      EXPECT_NE(message.find("say \"drop\" = \"column\" in parallel.tensor_plan"), std::string::npos) << message;
    });
  }
}

/// Of texts, with all that may be cut along time.
struct TextNetImpl : torch::nn::Module {
  TextNetImpl() { name_layers(*this); }
  at::Tensor forward(const at::Tensor& words) {  // [sample, time]
    const auto places = torch::arange(words.size(1), torch::kLong);
    at::Tensor values = drop(words_(words) + places_(places));
    const auto wide = first->of_made(made(norm, values)).cumsum(1);  // each position sees those before it
    const auto bent = [](const at::Tensor& inner) { return torch::gelu(inner); };
    values = values + second->of_made(made(bent, wide));
    return tied ? words_->scores(last_norm(values)) : head->of_made(made(last_norm, values));
  }
  bool tied = false;
  Embedding words_ = register_module("words", Embedding(11, 4)), places_ = register_module("places", Embedding(6, 4));
  Dropout drop = register_module("drop", Dropout(0.3));
  LayerNorm norm = register_module("norm", LayerNorm(4)), last_norm = register_module("last_norm", LayerNorm(4));
  Linear first = register_module("first", Linear(4, 10)), second = register_module("second", Linear(10, 4));
  Linear head = register_module("head", Linear(4, 11));
};
TORCH_MODULE(TextNet);

const TensorPlan kTimePlan{
    {"words", "vocabulary+time"}, {"places", "time"},      {"drop", "time"}, {"first", "column+time"},
    {"second", "row+time"},       {"head", "column+time"}, {"*norm", "time"}};

TEST_P(Split, AlongTimeHasTheOutputsAndGradientsOfOneProcess) {
  const auto words = torch::arange(30).view({5, 6}).remainder(11), targets = torch::arange(30).remainder(11);
  on_ranks({GetParam()}, [&](Communicator& group) {
    // With an engine gradients go straight to their places; without it slices go through autograd.
    struct Case {
      bool tied = false, engine = true, dropped = false, half = false;
    };
    for (const Case& now : {Case{},
                            {.tied = true},
                            {.engine = false},
                            {.dropped = true},
                            {.half = true},
                            {.dropped = true, .half = true}}) {
      const bool tied = now.tied;
      const double close = now.half ? 0.03 : 1e-9;  // of a norm
      const auto made_net = [&](bool split) {
        const DeferredFilling later;
        TextNet net;
        net->tied = tied;
        if (split) split_layers(*net, kTimePlan, group);
        if (!now.half) net->to(torch::kDouble);
        fill_layers(*net, 3);
        return net;
      };
      const auto loss_of = [&](TextNet& net, const ClassSplit& split) {
        random_key() = {5, 1, 4};
        at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
        at::autocast::set_autocast_enabled(at::kCPU, now.half);
        const auto scores = net(words).flatten(0, 1);
        at::autocast::set_autocast_enabled(at::kCPU, false);
        at::autocast::clear_cache();
        return cross_entropy_sum(now.half ? scores.to(torch::kFloat) : scores, targets, 0, split);
      };
      const auto expect_near = [&](const at::Tensor& one, const at::Tensor& other, const std::string& what) {
        EXPECT_LE((one - other).norm().item<double>(), close * other.norm().item<double>()) << what;
      };
      TextNet whole = made_net(false), mine = made_net(true);
      const auto alone = group.split(group.rank());
      std::optional<DataParallel> engine;
      if (now.engine) engine.emplace(parameters_of(*mine), *alone);
      const auto expected = loss_of(whole, {});
      expected.backward();
      const ClassSplit split{tied ? mine->words_->group() : mine->head->outputs_over(),
                             tied ? mine->words_->first_word() : mine->head->first_output(), 11};
      std::optional<MadeInputsDropped> dropping;
      if (now.dropped) dropping.emplace();
      const auto loss = loss_of(mine, split);
      dropping.reset();
      loss.backward();
      expect_near(loss, expected, "loss");
      const auto parts = parts_of(*mine);
      const auto partial = partial_parameters(*mine);
      EXPECT_EQ(partial.size(), group.size() > 1 ? 6U : 0U);  // two norms, the bias of `second`, positions
      const auto all = whole->named_parameters();
      for (const auto& [name, parameter] : parameters_of(*mine)) {
        if (tied && name.starts_with("head.")) continue;
        const auto gradient = parameter.grad().clone();
        if (partial.contains(name)) group.all_reduce_(gradient, comm::ReduceOp::Sum).wait();
        expect_near(gradient, part_of(all[name].grad(), parts.at(name)), name);
      }
      const torch::NoGradGuard no_gradients;
      whole->eval();
      mine->eval();
      expect_near(loss_of(mine, split), loss_of(whole, {}), "evaluated loss");
    }
  });
}

TEST(TimeSlices, SayWhatCannotBe) {
  on_ranks({2}, [](Communicator& group) {
    EXPECT_NE(test::message_of([&] { (void)time_slice(7, group); }, Fault::Usage)
                  .find("the 2 ranks of the tensor axis do not divide the 7 positions"),
              std::string::npos);
    EXPECT_NE(test::message_of([&] { (void)sum_to_slices(torch::ones({2, 4}), group); }, Fault::Usage)
                  .find("values of 2 dims are cut along time"),
              std::string::npos);
    Dropout drop(0.5);
    drop->split("column", group);
    (void)drop(torch::ones({2, 3}));
    EXPECT_NE(test::message_of([&] { (void)drop(torch::ones({2, 2})); }, Fault::Usage).find("has had 3 columns"),
              std::string::npos);
  });
}

TEST(SplitLayers, SayWhatCannotBe) {
  on_ranks({2}, [](Communicator& group) {
    const auto message = [&](const TensorPlan& plan) {
      Net net;
      return test::message_of([&] { split_layers(*net, plan, group); }, Fault::Usage);
    };
    EXPECT_NE(message({{"frist", "column"}}).find("no layer that can be split has a name like 'frist'"),
              std::string::npos);
    EXPECT_NE(message({{"first", "colum"}}).find("'colum': this kind of layer is split by column, row"),
              std::string::npos);
  });
}

TEST(SplitLayers, TellHowLongTheyWaited) {
  on_ranks({2}, [](Communicator& group) {
    const auto late = [&] {
      if (group.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    };
    const auto values = torch::ones({3}).requires_grad_();
    const double before = waited_for_ranks_s();
    late();
    const auto sum = sum_of_ranks(to_all_ranks(values, group), group).sum();
    const double after_forward = waited_for_ranks_s();
    late();
    sum.backward();
    const double least = group.rank() == 0 ? 0.1 : 0.0;
    EXPECT_GT(after_forward - before, least);
    EXPECT_GT(waited_for_ranks_s() - after_forward, least);
  });
}

/// As the layer of one process does, whose bias is cast with its weights.
TEST(Layer, GivesHalfWhereRanksSumUnderAutocast) {
  on_ranks({2}, [](Communicator& group) {
    Linear linear(4, 6);
    Convolution convolution(ConvolutionShape{.inputs = 2, .outputs = 3, .kernel = 1, .bias = true});
    linear->split("row", group);
    convolution->split("row", group);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, true);
    const auto sums = linear(torch::ones({3, 2})), images = convolution(torch::ones({3, 1, 2, 2}));
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::clear_cache();
    EXPECT_EQ(sums.scalar_type(), at::kBFloat16);
    EXPECT_EQ(images.scalar_type(), at::kBFloat16);
    (sums.sum() + images.sum()).backward();
    EXPECT_EQ(linear->bias.grad().scalar_type(), at::kFloat);
  });
}

/// A class that is ruled out has no share, and its score is no part of a sum that counts for nothing.
TEST(CrossEntropy, TakesScoresOfMinusInfinity) {
  auto scores = torch::arange(24, torch::kDouble).view({4, 6}).sin();
  scores.select(1, 2).fill_(-std::numeric_limits<double>::infinity());
  const auto targets = torch::tensor({0, 5, 3, 1});
  const auto expected = cross_entropy_sum(scores, targets, 0, {}).item<double>();
  on_ranks({2}, [&](Communicator& group) {
    const auto mine = scores.narrow(1, 3 * group.rank(), 3).clone().requires_grad_();
    const auto loss = cross_entropy_sum(mine, targets, 0, {&group, 3 * group.rank(), 6});
    EXPECT_NEAR(loss.item<double>(), expected, 1e-12);
    loss.backward();
    EXPECT_TRUE(mine.grad().isfinite().all().item<bool>());
  });
}

TEST(Layer, KeepsItsValuesWhenItIsSplitLater) {
  on_ranks({2}, [](Communicator& group) {
    torch::manual_seed(1);
    Linear layer(4, 6);
    const auto before = layer->weight.detach().clone();
    layer->split("column", group);
    EXPECT_TRUE(torch::equal(layer->weight, before.narrow(0, 3 * group.rank(), 3)));
  });
}

}  // namespace
}  // namespace lockstep::parallel
