// GPT beside its formulas, written out in plain operations.
#include <cmath>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/core/testing.h"
#include "lockstep/models/model.h"
#include "lockstep/models/rotary.h"
#include "lockstep/parallel/module_parameters.h"

namespace lockstep::models {
namespace {

constexpr std::int64_t kWords = 31, kContext = 10, kWidth = 12, kHeads = 3, kLayers = 2;

/// Pairs of neighbours of [time, width], turned one by one.
torch::Tensor turned_by_hand(const torch::Tensor& values, std::int64_t first) {
  torch::Tensor result = values.clone();
  const std::int64_t width = values.size(1);
  for (std::int64_t time = 0; time < values.size(0); ++time) {
    for (std::int64_t pair = 0; pair < width / 2; ++pair) {
      const double angle = static_cast<double>(first + time) /
                           std::pow(10000.0, 2.0 * static_cast<double>(pair) / static_cast<double>(width));
      const auto x = values[time][2 * pair].item<double>(), y = values[time][2 * pair + 1].item<double>();
      result[time][2 * pair] = x * std::cos(angle) - y * std::sin(angle);
      result[time][2 * pair + 1] = x * std::sin(angle) + y * std::cos(angle);
    }
  }
  return result;
}

class ByHand {
 public:
  ByHand(Model& model, bool rotary, bool gated) : rotary_(rotary), gated_(gated) {
    for (const auto& [name, tensor] : parallel::parameters_of(model.module())) weights_[name] = tensor;
  }

  torch::Tensor scores(const torch::Tensor& tokens) const {  // [time]
    torch::Tensor values = weights_.at("wte.weight").index_select(0, tokens);
    if (!rotary_) values = values + weights_.at("wpe.weight").narrow(0, 0, tokens.size(0));
    for (int layer = 0; layer < kLayers; ++layer) {
      const std::string name = "h." + std::to_string(layer) + ".";
      values = values + attention(name + "attn.", norm(name + "ln_1", values));
      values = values + feed_forward(name + "mlp.", norm(name + "ln_2", values));
    }
    const bool tied = !weights_.contains("lm_head.weight");
    return norm("ln_f", values).mm(weights_.at(tied ? "wte.weight" : "lm_head.weight").t());
  }

 private:
  torch::Tensor linear(const std::string& name, const torch::Tensor& values) const {
    return values.mm(weights_.at(name + ".weight").t()) + weights_.at(name + ".bias");
  }
  torch::Tensor norm(const std::string& name, const torch::Tensor& values) const {
    const auto centred = values - values.mean(-1, true);
    const auto spread = (centred.square().mean(-1, true) + 1e-5).sqrt();
    return centred / spread * weights_.at(name + ".weight") + weights_.at(name + ".bias");
  }
  torch::Tensor attention(const std::string& name, const torch::Tensor& values) const {
    const auto all = linear(name + "c_attn", values);
    const std::int64_t width = kWidth / kHeads, time = values.size(0);
    const auto future = torch::ones({time, time}).triu(1).to(torch::kBool);
    std::vector<torch::Tensor> heads;
    for (std::int64_t head = 0; head < kHeads; ++head) {
      auto query = all.narrow(1, head * width, width), key = all.narrow(1, kWidth + head * width, width);
      if (rotary_) query = turned_by_hand(query, 0), key = turned_by_hand(key, 0);
      const auto scores = query.mm(key.t()) / std::sqrt(static_cast<double>(width));
      heads.push_back(
          scores.masked_fill(future, -INFINITY).softmax(-1).mm(all.narrow(1, 2 * kWidth + head * width, width)));
    }
    return linear(name + "c_proj", torch::cat(heads, 1));
  }
  torch::Tensor feed_forward(const std::string& name, const torch::Tensor& values) const {
    const auto inner = linear(name + "c_fc", values);
    if (!gated_) {
      const auto bent = ((inner + 0.044715 * inner.pow(3)) * std::sqrt(2 / M_PI)).tanh();
      return linear(name + "c_proj", 0.5 * inner * (1 + bent));
    }
    const auto half = inner.size(1) / 2;
    const auto gate = inner.narrow(1, 0, half), up = inner.narrow(1, half, half);
    return linear(name + "c_proj", gate / (1 + (-gate).exp()) * up);
  }

  bool rotary_, gated_;
  std::map<std::string, torch::Tensor> weights_;
};

std::unique_ptr<Model> make_gpt(const std::string& more) {
  const std::string recipe = "[model]\nwidth = 12\nheads = 3\nlayers = 2\n" + more;
  return make_model("gpt", Config::from_text(recipe), "model", {{kContext}, kWords}, 4);
}

TEST(Gpt, IsItsFormula) {
  const torch::NoGradGuard no_gradients;
  for (const bool rotary : {false, true}) {
    for (const bool gated : {false, true}) {
      for (const bool tied : {false, true}) {
        const auto model =
            make_gpt(std::string("positions = '") + (rotary ? "rotary" : "learned") + "'\nactivation = '" +
                     (gated ? "swiglu" : "gelu") + "'\ntied = " + (tied ? "true" : "false"));
        model->module().eval();
        model->module().to(torch::kDouble);
        // Weights as small as they begin hide what attention does.
        for (const auto& [name, tensor] : parallel::parameters_of(model->module())) {
          if (name.find("ln_") == std::string::npos) tensor.normal_(0, 0.5);
        }
        const auto tokens = torch::randint(kWords, {2, kContext}, torch::kLong);
        const auto scores = model->forward(tokens);
        const ByHand by_hand(*model, rotary, gated);
        for (int text = 0; text < 2; ++text) {
          const auto wanted = by_hand.scores(tokens[text]);
          EXPECT_TRUE(torch::allclose(scores[text], wanted, 1e-10, 1e-10)) << rotary << gated << tied;
        }
      }
    }
  }
}

TEST(Gpt, RefusesMoreTokensThanItsContext) {
  for (const char* positions : {"positions = 'learned'", "positions = 'rotary'"}) {
    const auto model = make_gpt(positions);
    EXPECT_EQ(model->context(), kContext);
    EXPECT_EQ(test::message_of([&] { model->forward(torch::zeros({1, kContext + 1}, torch::kLong)); }),
              "11 tokens are more than the model's context of 10; set model.context");
  }
}

std::set<std::string> operations_behind(const torch::Tensor& output) {
  std::set<std::string> names;
  std::set<torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> open{output.grad_fn().get()};
  while (!open.empty()) {
    auto* node = open.back();
    open.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    names.insert(node->name());
    for (const auto& edge : node->next_edges()) open.push_back(edge.function.get());
  }
  return names;
}

// The matrix of all scores is never made: that is what the fused kernel is for.
TEST(Gpt, AttendsByTheFusedKernel) {
  for (const char* positions : {"positions = 'learned'", "positions = 'rotary'"}) {
    for (const auto type : {torch::kFloat, torch::kDouble, torch::kBFloat16}) {
      const auto model = make_gpt(positions);
      model->module().to(type);
      const auto names = operations_behind(model->forward(torch::zeros({2, kContext}, torch::kLong)));
      EXPECT_TRUE(names.contains("ScaledDotProductFlashAttentionForCpuBackward0"))
          << positions << " " << type << ": " << testing::PrintToString(names);
      EXPECT_FALSE(names.contains("SoftmaxBackward0") || names.contains("SafeSoftmaxBackward0"));
    }
  }
}

TEST(Rotary, TurnsPairsByPosition) {
  const auto values = torch::randn({5, 6}, torch::kDouble);
  for (const std::int64_t first : {0, 3, 4000}) {
    EXPECT_TRUE(torch::allclose(rotated(values, rotary_turns(first, 5, 6, values)), turned_by_hand(values, first),
                                1e-12, 1e-12));
  }
}

TEST(Rotary, LeavesProductsToTheDistance) {
  const auto query = torch::randn({1, 8}, torch::kDouble), key = torch::randn({1, 8}, torch::kDouble);
  const auto product = [&](std::int64_t of_query, std::int64_t of_key) {
    return (rotated(query, rotary_turns(of_query, 1, 8, query)) * rotated(key, rotary_turns(of_key, 1, 8, key)))
        .sum()
        .item<double>();
  };
  EXPECT_NEAR(product(0, 0), (query * key).sum().item<double>(), 1e-12);
  for (const std::int64_t place : {1, 17, 5000}) {
    EXPECT_NEAR(product(place + 3, place), product(3, 0), 1e-9) << place;
    EXPECT_GT(std::abs(product(place + 4, place) - product(3, 0)), 1e-6) << place;
  }
}

TEST(Rotary, KeepsHalfTypesAndTheirAccuracy) {
  const auto values = torch::randn({1, 2, 2000, 8});
  const auto exact = rotated(values, rotary_turns(0, 2000, 8, values));
  for (const auto type : {torch::kBFloat16, torch::kHalf}) {
    const auto half = values.to(type);
    const auto turned = rotated(half, rotary_turns(0, 2000, 8, half));
    EXPECT_EQ(turned.scalar_type(), type);
    // Rounded when it comes and when it goes, but angles are not.
    EXPECT_TRUE(torch::allclose(turned.to(torch::kFloat), exact, 2e-2, 4e-2));
  }
}

}  // namespace
}  // namespace lockstep::models
