// Texts that go on token by token have the scores of a model that reads all of them anew.
#include "lockstep/models/continuation.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep::models {
namespace {

constexpr std::int64_t kWords = 23, kContext = 12;

class Going : public testing::TestWithParam<std::pair<const char*, const char*>> {};
INSTANTIATE_TEST_SUITE_P(
    Models, Going,
    testing::Values(std::pair("gpt", "width = 8\nheads = 2\nlayers = 3\ndropout = 0.1"),
                    std::pair("gpt", "width = 8\nheads = 2\nlayers = 3\npositions = 'rotary'\nactivation = 'swiglu'"),
                    std::pair("lstm", "width = 4\nhidden = 8\nlayers = 2")));

TEST_P(Going, OnIsReadingAnew) {
  const auto& [name, recipe] = GetParam();
  const auto model =
      make_model(name, Config::from_text(std::string("[model]\n") + recipe), "model", {{kContext}, kWords}, 1);
  model->module().eval();
  model->module().to(torch::kDouble);
  const torch::NoGradGuard no_gradients;
  Continuation continuation(*model);
  std::vector<std::int64_t> text{3, 1, 4, 1, 5};
  torch::Tensor scores = continuation.after(text);
  // Beyond the context of gpt, too: then the last tokens count.
  for (int step = 0; step < 2 * kContext; ++step) {
    const auto most = model->context() > 0 ? static_cast<std::size_t>(model->context()) : text.size();
    const std::vector<std::int64_t> seen(text.end() - static_cast<std::ptrdiff_t>(std::min(most, text.size())),
                                         text.end());
    const torch::Tensor anew = model->forward(torch::tensor(seen).unsqueeze(0))[0][-1];
    ASSERT_EQ(scores.sizes(), anew.sizes());
    EXPECT_TRUE(torch::allclose(scores, anew, 1e-9, 1e-12)) << "after " << text.size() << " tokens";
    ASSERT_EQ(scores.argmax().item<std::int64_t>(), anew.argmax().item<std::int64_t>());
    text.push_back((scores.argmax().item<std::int64_t>() + step) % kWords);  // not the same for ever
    scores = continuation.after(std::span(text).last(1));
  }
}

TEST_P(Going, OnTakesSeveralTokensAtATime) {
  const auto& [name, recipe] = GetParam();
  const auto model =
      make_model(name, Config::from_text(std::string("[model]\n") + recipe), "model", {{kContext}, kWords}, 1);
  model->module().eval();
  const std::vector<std::int64_t> text{3, 1, 4, 1, 5, 9, 2};
  Continuation at_once(*model), in_parts(*model);
  const torch::Tensor scores = at_once.after(text);
  (void)in_parts.after(std::span(text).first(3));
  EXPECT_TRUE(torch::allclose(in_parts.after(std::span(text).subspan(3)), scores, 1e-4, 1e-6));
}

}  // namespace
}  // namespace lockstep::models
