#include "lockstep/parallel/chain.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/core/error.h"
#include "lockstep/core/testing.h"
#include "lockstep/parallel/layers/batch_norm.h"
#include "lockstep/parallel/layers/dropout.h"
#include "lockstep/parallel/layers/linear.h"
#include "lockstep/parallel/stages.h"

namespace lockstep::parallel {
namespace {

struct NetImpl : torch::nn::Module {
  NetImpl() {
    name_layers(*this);
    to(torch::kDouble);
  }
  Chain chain() {
    return {{"one", {"one", "drop"}, [this](const at::Tensor& x) { return drop(torch::tanh(one(x))); }},
            {"norm", {"norm"}, [this](const at::Tensor& x) { return norm(x); }},
            {"two", {"two", "one"}, [this](const at::Tensor& x) { return torch::linear(two(x), one->weight); }}};
  }
  Linear one = register_module("one", Linear(4, 6));
  Dropout drop = register_module("drop", Dropout(0.5));
  BatchNorm norm = register_module("norm", BatchNorm(6));
  Linear two = register_module("two", Linear(6, 4));
};
TORCH_MODULE(Net);

/// Notes what is done around links.
class Diary final : public LinkObserver {
 public:
  void before_forward(std::size_t link, NextLink) override { text += fmt::format("f{} ", link); }
  void before_backward(std::size_t link, NextLink) override { text += fmt::format("b{} ", link); }
  void after_backward(std::size_t link, NextLink) override { text += fmt::format("({}) ", link); }
  std::string text;
};

TEST(ChainPass, HasTheGradientsOfOneGraph) {
  torch::manual_seed(3);
  Net net;
  const Chain chain = net->chain();
  const auto input = torch::randn({5, 4}, torch::kDouble), slopes = torch::randn({5, 6}, torch::kDouble);
  random_key() = {1, 2, 3};
  const auto outputs = run(chain, input);
  outputs.backward(slopes);
  std::vector<at::Tensor> expected;
  for (const auto& parameter : net->parameters()) expected.push_back(parameter.grad().clone());
  const auto statistics = net->norm->running_mean.clone();

  for (const bool recomputes : {false, true}) {
    net->zero_grad();
    net->norm->running_mean.zero_();
    Diary diary;
    random_key() = {1, 2, 3};
    ChainPass pass(
        chain, 0, 3,
        {.recomputes = [&](std::size_t link) { return recomputes && link < 2; }, .observer = &diary, .scope = {}});
    EXPECT_TRUE(torch::equal(pass.forward(input), outputs));
    random_key() = {4, 5, 6};  // of another micro-batch that has come between
    EXPECT_FALSE(pass.backward(slopes).defined());
    EXPECT_EQ(random_key().seed, 4U);
    for (std::size_t number = 0; number < expected.size(); ++number) {
      EXPECT_TRUE(torch::allclose(net->parameters()[number].grad(), expected[number], 1e-12)) << number;
    }
    EXPECT_TRUE(torch::allclose(net->norm->running_mean, statistics, 1e-12)) << "counted once";
    EXPECT_EQ(diary.text, "f0 f1 f2 b2 (2) b1 (1) b0 (0) ");
  }
  random_key() = {};
}

/// Layers of torch draw from its generator, and not by key.
TEST(ChainPass, DrawsAgainWhatTorchDrew) {
  torch::nn::Linear one(4, 6), two(6, 4);
  torch::nn::Dropout drop(0.5);
  torch::nn::RReLU leaky;
  const Chain chain{{"one", {"one"}, [&](const at::Tensor& x) { return drop->forward(one->forward(x)); }},
                    {"two", {"two"}, [&](const at::Tensor& x) { return leaky->forward(two->forward(x)); }},
                    {"none", {}, [&](const at::Tensor& x) { return torch::tanh(x); }}};
  const auto input = torch::randn({5, 4}), other_input = torch::randn({7, 4});
  const auto gradients = [&](bool recomputes) {
    one->zero_grad();
    two->zero_grad();
    torch::manual_seed(3);
    const ChainPass::Options options{.recomputes = [=](std::size_t) { return recomputes; }};
    ChainPass pass(chain, 0, 3, options), other(chain, 0, 3, options);
    const auto outputs = pass.forward(input), other_outputs = other.forward(other_input);
    (void)pass.backward(outputs.sin());
    (void)other.backward(other_outputs.sin());
    return std::vector{one->weight.grad().clone(), two->weight.grad().clone(), torch::rand({3})};
  };
  const auto kept = gradients(false), drawn_again = gradients(true);
  for (std::size_t number = 0; number < kept.size(); ++number) {
    EXPECT_TRUE(torch::equal(kept[number], drawn_again[number])) << number;
  }
}

/// A link whose output does not depend on its input by autograd: those before it are left alone, as in one graph.
TEST(ChainPass, EndsWhereNothingDependsOnTheInput) {
  torch::nn::Linear one(4, 6), two(6, 4);
  const Chain chain{{"one", {"one"}, [&](const at::Tensor& x) { return one->forward(x); }},
                    {"cut", {}, [](const at::Tensor& x) { return x.detach() * 2; }},
                    {"two", {"two"}, [&](const at::Tensor& x) { return two->forward(x); }}};
  for (const bool recomputes : {false, true}) {
    two->zero_grad();
    ChainPass pass(chain, 0, 3, {.recomputes = [=](std::size_t) { return recomputes; }});
    const auto outputs = pass.forward(torch::randn({5, 4}));
    EXPECT_FALSE(pass.backward(torch::ones_like(outputs)).defined());
    EXPECT_FALSE(one->weight.grad().defined());
    EXPECT_TRUE(two->weight.grad().defined());
  }
}

/// So that what it keeps of the weights of a link is not there beside those of the next.
TEST(Chain, HasAScopeForEachLink) {
  int alive = 0, made = 0;
  const auto forward = [&](const at::Tensor& x) {
    EXPECT_EQ(alive, 1);
    return x;
  };
  const LinkScope scope = [&] {
    ++alive;
    return std::shared_ptr<void>(&++made, [&](int*) { --alive; });
  };
  const Chain chain{{"one", {}, forward}, {"two", {}, forward}, {"three", {}, forward}};
  (void)run(chain, 0, 3, torch::ones({2}), nullptr, scope);
  EXPECT_EQ(made, 3);
  EXPECT_EQ(alive, 0);
}

TEST(Stages, CostAsLittleAsTheyCan) {
  using Cuts = std::vector<std::size_t>;
  EXPECT_EQ(balanced_cuts({1, 1, 1, 1}, 2), (Cuts{0, 2, 4}));
  EXPECT_EQ(balanced_cuts({0, 4, 4, 4, 9}, 2), (Cuts{0, 4, 5}));
  EXPECT_EQ(balanced_cuts({9, 1, 1, 1}, 3), (Cuts{0, 1, 2, 4}));
  EXPECT_EQ(balanced_cuts({5, 5}, 1), (Cuts{0, 2}));
  EXPECT_EQ(
      test::message_of([] { balanced_cuts({1, 1}, 3); }, Fault::Usage),
      "3 stages of a pipeline for a model of 2 blocks: each needs one; set parallel.pipe times parallel.chunks to "
      "at most 2");
  EXPECT_EQ(links_of({0, 2, 3, 5, 6}, 1, 2), (std::vector<std::size_t>{2, 5}));
}

TEST(Stages, KeepWhatTheirLinksUse) {
  Net net;
  const Chain chain = net->chain();
  EXPECT_EQ(tied_modules(chain, {0, 2, 3}, 2), std::vector<std::string>{"one"});
  EXPECT_TRUE(tied_modules(chain, {0, 2, 3}, 1).empty());
  // A model that goes back the way it came: two ties, each of its own stages.
  const Chain there_and_back{{"a", {"outer"}, {}}, {"b", {"inner"}, {}}, {"c", {"inner"}, {}}, {"d", {"outer"}, {}}};
  const Ties expected{{{0, 3}, {"outer"}}, {{1, 2}, {"inner"}}};
  EXPECT_EQ(ties_of(there_and_back, {0, 1, 2, 3, 4}, 4), expected);
  keep_links(*net, chain, {1, 2});
  std::vector<std::string> names;
  for (const auto& child : net->named_children()) names.push_back(child.key());
  EXPECT_EQ(names, (std::vector<std::string>{"one", "norm", "two"}));
  keep_links(*net, chain, {1});
  EXPECT_EQ(net->named_parameters().keys(), (std::vector<std::string>{"norm.weight", "norm.bias"}));
  EXPECT_EQ(net->one->weight.numel(), 0);
}

/// A link may name a module, and another one only what is in it.
TEST(Stages, ShareWhatLiesInAModuleOfAnother) {
  const Chain chain{{"a", {"emb"}, {}}, {"b", {"h"}, {}}, {"c", {"emb.word"}, {}}};
  EXPECT_EQ(ties_of(chain, {0, 1, 2, 3}, 3), (Ties{{{0, 2}, {"emb.word"}}}));
  // Each is summed once, over those that have it.
  const Chain both{{"a", {"emb"}, {}}, {"b", {"emb"}, {}}, {"c", {"emb.word"}, {}}};
  EXPECT_EQ(ties_of(both, {0, 1, 2, 3}, 3), (Ties{{{0, 1}, {"emb"}}, {{0, 1, 2}, {"emb.word"}}}));
  EXPECT_EQ(users_of("emb.pos.weight", both, {0, 1, 2, 3}, 3), (std::set<int>{0, 1}));
  EXPECT_EQ(users_of("emb.word.weight", both, {0, 1, 2, 3}, 3), (std::set<int>{0, 1, 2}));
  EXPECT_EQ(users_of("embedding.weight", both, {0, 1, 2, 3}, 3), std::set<int>{});
}

TEST(Stages, RefuseWhatTheyCannotShareOut) {
  const auto refusal = [](torch::nn::Module& model, const Chain& chain) {
    return test::message_of([&] { keep_links(model, chain, {0}); }, Fault::Usage);
  };
  const Chain chain{{"a", {"encoder.a"}, {}}, {"b", {"encoder.b"}, {}}};
  const auto with_two = [](torch::nn::Module& module) {
    module.register_module("a", torch::nn::Linear(2, 2));
    module.register_module("b", torch::nn::Linear(2, 2));
  };
  torch::nn::Module model;
  const auto inner = model.register_module("encoder", std::make_shared<torch::nn::Module>());
  with_two(*inner);
  inner->register_parameter("pos", torch::zeros({2}));
  EXPECT_EQ(refusal(model, chain),
            "'encoder.pos' belongs to 'encoder' itself, whose parts are on several stages: register it in a module of "
            "its own and name that in the link");
  torch::nn::Module flat;
  with_two(flat);
  flat.register_parameter("pos", torch::zeros({2}));
  EXPECT_EQ(refusal(flat, {{"a", {"a"}, {}}, {"b", {"b"}, {}}}),
            "'pos' belongs to the model itself, whose parts are on several stages: register it in a module of its own "
            "and name that in the link");
  torch::nn::Module tied;
  const auto wte = tied.register_module("wte", torch::nn::Linear(2, 2));
  tied.register_module("lm_head", wte);
  EXPECT_EQ(refusal(tied, {{"a", {"wte"}, {}}, {"b", {"lm_head"}, {}}}),
            "'lm_head.weight' is 'wte.weight' under a second name: register the module once and name it in both links");
  EXPECT_EQ(wte->weight.numel(), 4) << "nothing is taken away before";
}

}  // namespace
}  // namespace lockstep::parallel
