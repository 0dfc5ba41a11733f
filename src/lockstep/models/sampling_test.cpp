// Tokens that are drawn: how often, of which, and the same again.
#include "lockstep/models/sampling.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/log.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "lockstep/core/testing.h"

namespace lockstep::models {
namespace {

constexpr std::array kShares{0.05, 0.4, 0.1, 0.25, 0.2};  // of tokens 0 to 4

at::Tensor scores() { return at::log(at::tensor(std::vector<double>(kShares.begin(), kShares.end()))) + 3; }

std::vector<std::int64_t> drawn(const Sampling& how, std::uint64_t seed, int count) {
  Random random(seed, 0);
  std::vector<std::int64_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(draw(scores(), how, random));
  return tokens;
}

std::set<std::int64_t> kinds(const Sampling& how) {
  const auto tokens = drawn(how, 1, 500);
  return {tokens.begin(), tokens.end()};
}

using Tokens = std::set<std::int64_t>;

TEST(Sampling, AtTemperatureZeroTakesTheLikeliest) {
  EXPECT_EQ(kinds({.temperature = 0}), (Tokens{1}));
  EXPECT_EQ(kinds({.temperature = 0, .top_k = 3, .top_p = 0.9}), (Tokens{1}));
  Random random(1, 0);
  EXPECT_EQ(draw(at::tensor(std::vector<double>{1, 7, 7}), {.temperature = 0}, random), 1) << "the first of equal ones";
}

TEST(Sampling, DrawsAsOftenAsLikely) {
  constexpr int kDraws = 20'000;
  const auto share_of = [](std::int64_t token, const Sampling& how) {
    const auto tokens = drawn(how, 3, kDraws);
    return static_cast<double>(std::count(tokens.begin(), tokens.end(), token)) / kDraws;
  };
  for (std::size_t token = 0; token < kShares.size(); ++token) {
    EXPECT_NEAR(share_of(static_cast<std::int64_t>(token), {}), kShares[token], 0.015) << token;
  }
  // At temperature 1/2 probabilities are squared.
  double squares = 0;
  for (const double share : kShares) squares += share * share;
  EXPECT_NEAR(share_of(1, {.temperature = 0.5}), 0.16 / squares, 0.015);
  // Among the likeliest two they stay as they are to each other.
  EXPECT_NEAR(share_of(1, {.top_k = 2}), 0.4 / 0.65, 0.015);
}

TEST(Sampling, KeepsToTheLikeliest) {
  EXPECT_EQ(kinds({}), (Tokens{0, 1, 2, 3, 4}));
  EXPECT_EQ(kinds({.top_k = 1}), (Tokens{1}));
  EXPECT_EQ(kinds({.top_k = 3}), (Tokens{1, 3, 4}));
  EXPECT_EQ(kinds({.top_k = 50}), (Tokens{0, 1, 2, 3, 4}));
  EXPECT_EQ(kinds({.top_p = 0.01}), (Tokens{1})) << "at least one";
  EXPECT_EQ(kinds({.top_p = 0.39}), (Tokens{1}));
  EXPECT_EQ(kinds({.top_p = 0.41}), (Tokens{1, 3}));
  EXPECT_EQ(kinds({.top_p = 0.9}), (Tokens{1, 2, 3, 4}));
  // Of the likeliest three the first has 0.4 / 0.85, less than 0.6, and the first two more.
  EXPECT_EQ(kinds({.top_k = 3, .top_p = 0.6}), (Tokens{1, 3}));
}

TEST(Sampling, IsTheSameForOneSeed) {
  EXPECT_EQ(drawn({}, 5, 100), drawn({}, 5, 100));
  EXPECT_NE(drawn({}, 5, 100), drawn({}, 6, 100));
}

TEST(Sampling, SaysWhatItCannotTake) {
  using test::message_of;
  EXPECT_EQ(message_of([] { Sampling{.temperature = -0.5}.check(); }),
            "--temperature -0.5: it is a number from 0 on, and at 0 the likeliest token is taken");
  for (const double share : {0.0, -0.1, 1.5, std::nan("")}) {
    EXPECT_TRUE(message_of([share] {
                  Sampling{.top_p = share}.check();
                }).ends_with("above 0 and up to 1, which is all tokens"));
  }
  EXPECT_EQ(message_of([] { Sampling{.top_k = -1}.check(); }), "--top-k -1: it is from 1 on, or 0 for all tokens");
  Random random(1, 0);
  const at::Tensor spoilt = at::tensor(std::vector<double>{0, std::nan("")});
  EXPECT_EQ(message_of([&] { draw(spoilt, {}, random); }, Fault::Data),
            "the score of token 1 is no number: the weights are spoilt");
}

}  // namespace
}  // namespace lockstep::models
