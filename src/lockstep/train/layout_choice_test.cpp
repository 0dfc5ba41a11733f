#include "lockstep/train/layout_choice.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include <gtest/gtest.h>

#include "lockstep/core/error.h"
#include "lockstep/core/testing.h"
#include "lockstep/train/costs_testing.h"
#include "lockstep/train/layer_volumes.h"
#include "lockstep/train/layout_agreement.h"
#include "lockstep/train/memory_forecast.h"

namespace lockstep::train {
namespace {

using testing::facts_with;
using testing::made_up;
using testing::MadeUp;

LayoutChoice choose(const MadeUp& model, const LayoutLimits& limits, std::int64_t batch,
                    const std::optional<Layout>& before = {}) {
  std::map<int, parallel::ModelCosts> known;
  const auto costs = [&](int tensor) -> const parallel::ModelCosts& {
    if (tensor > 4) fail(Fault::Usage, "it has 4 heads");
    return known.try_emplace(tensor, made_up(model, tensor)).first->second;
  };
  return choose_layout(costs, limits, facts_with(batch), before);
}

bool any_says(const LayoutChoice& choice, const std::string& text) {
  return std::any_of(choice.reasons.begin(), choice.reasons.end(),
                     [&](const std::string& reason) { return reason.find(text) != std::string::npos; });
}

constexpr std::int64_t kMiB = 1 << 20;

TEST(LayoutChoice, LargeActivationsGoToData) {
  // 4 x 4 MB of gradients against 4 x 64 x 1 MB of activations.
  const auto choice = choose({.weights = kMiB, .kept = 8e6, .peak = 9e6, .output = 1e6, .summed = 2e6},
                             {.ranks = 4, .ranks_of_host = 4}, 64);
  EXPECT_TRUE(choice.fits);
  EXPECT_EQ(choice.chosen.layout.text(), "data 4");
  // A ring sends 3/4 of the gradients twice.
  EXPECT_DOUBLE_EQ(choice.chosen.moved_bytes(), 2 * 0.75 * 4 * 4 * kMiB);
  EXPECT_TRUE(any_says(choice, "chosen is data 4: a rank moves 24 MiB of gradients and weights a step"))
      << choice.reasons.front();
  EXPECT_TRUE(any_says(choice, "moves more: data 2, tensor 2")) << choice.reasons.at(2);
  // 2 MB of each of 64 samples, in the same ring.
  EXPECT_EQ(choice.reasons.at(1),
            "layer link0 to link3, each: 6 MiB of gradients by data 4, 183.11 MiB of activations by tensor 4");
}

TEST(LayoutChoice, KeepsWhatWasChosenBeforeIfItMayBe) {
  const MadeUp model{.weights = kMiB, .kept = 8e6, .peak = 9e6, .output = 1e6, .summed = 2e6};
  const Layout before{.data = 2, .tensor = 2, .zero = 1};
  LayoutLimits limits{.ranks = 4, .ranks_of_host = 4};
  const auto kept = choose(model, limits, 64, before);
  EXPECT_EQ(kept.chosen.layout.text(), before.text());
  EXPECT_TRUE(any_says(kept, "chosen when the run was begun: data 2, tensor 2, zero 1"));

  const auto anew = [&](const LayoutLimits& now) { return choose(model, now, 64, before).chosen.layout.text(); };
  LayoutLimits fixed = limits;
  fixed.pipe = 2;
  EXPECT_EQ(anew(fixed), choose(model, fixed, 64).chosen.layout.text());
  EXPECT_EQ(anew({.ranks = 8, .ranks_of_host = 8}), "data 8");
  EXPECT_EQ(anew({.ranks = 4, .ranks_of_host = 1}), "data 4");
  LayoutLimits whole = limits;
  whole.check = [](const Layout& layout, bool) {
    if (layout.tensor > 1) fail(Fault::Usage, "layers are whole");
  };
  EXPECT_EQ(anew(whole), "data 4");
  LayoutLimits small = limits;
  small.memory_bytes = needed_bytes(kept.chosen.memory) - 1;
  EXPECT_NE(anew(small), before.text());
}

TEST(LayoutChoice, SaysLayerByLayerWhatWouldMove) {
  // The last link has large weights; the one before shares those of the first.
  auto whole = made_up({.links = 4, .weights = 1000, .summed = 4096}), split = made_up({.links = 4, .summed = 4096}, 2);
  whole.parameters[3].tensor = at::empty({1 << 20}, whole.parameters[3].tensor.options()).requires_grad_();
  whole.chain[2].modules = {"link0"};
  const std::vector<std::string> expected{
      "layer link0 to link1, each: 3.91 KiB of gradients by data 2, 32 KiB of activations by tensor 2",
      "layer link2: 0 B of gradients by data 2, 32 KiB of activations by tensor 2",
      "layer link3: 4 MiB of gradients by data 2, 32 KiB of activations by tensor 2"};
  EXPECT_EQ(volumes_by_layer(whole, split, 2, 8, 2), expected);
}

TEST(LayoutChoice, LargeWeightsOfFewSamplesGoToTensor) {
  const MadeUp model{.weights = 64 * kMiB, .kept = 8e4, .peak = 9e4, .output = 1e4, .summed = 2e4};
  const auto choice = choose(model, {.ranks = 4, .ranks_of_host = 4}, 4);
  EXPECT_EQ(choice.chosen.layout.text(), "data 1, tensor 4");
  // Ranks of the tensor axis talk in every layer: not between hosts.
  const auto over_hosts = choose(model, {.ranks = 4, .ranks_of_host = 2}, 4);
  EXPECT_EQ(over_hosts.chosen.layout.text(), "data 2, tensor 2");
  // Of two hosts of three ranks the second pair would lie on both.
  const LayoutLimits of_threes{.ranks = 6, .ranks_of_host = 3, .tensor_ranks_on_host = [](const Layout& layout) {
                                 return std::gcd(layout.tensor, 3);
                               }};
  EXPECT_EQ(choose(model, of_threes, 6).chosen.layout.text(), "data 2, tensor 3");
  LayoutLimits of_pairs = of_threes;
  of_pairs.tensor = 2;
  EXPECT_NE(test::message_of([&] { (void)choose(model, of_pairs, 6); }, Fault::Usage).find("stays on a host"),
            std::string::npos);
}

TEST(LayoutChoice, ASampleIsNotShared) {
  // Of a batch of 2 two ranks of four would have nothing to do.
  const auto choice = choose({.weights = kMiB, .kept = 8e6, .peak = 9e6, .output = 1e6, .summed = 2e6},
                             {.ranks = 4, .ranks_of_host = 4}, 2);
  EXPECT_EQ(choice.chosen.layout.text(), "data 2, tensor 2");
  EXPECT_TRUE(any_says(choice, "loses more time: data 4")) << choice.reasons.at(1);
}

TEST(LayoutChoice, StatesAreSharedOutWhereTheyDoNotFit) {
  // 16 bytes of each of 4 Mi weights, of which two ranks that share states out have 12.
  const MadeUp model{.weights = kMiB, .kept = 1e6, .peak = 1e6, .output = 1e6, .summed = 1e9};
  const auto choice = choose(model, {.ranks = 2, .ranks_of_host = 2, .memory_bytes = 60 * kMiB}, 2);
  EXPECT_TRUE(choice.fits);
  EXPECT_EQ(choice.chosen.layout.text(), "data 2, zero 1");
  EXPECT_TRUE(any_says(choice, "does not fit into 60 MiB: data 2: "));
  // Of several micro-batches their sums stay whole with zero 1.
  LayoutLimits in_pieces{.ranks = 2, .ranks_of_host = 2, .memory_bytes = 66 * kMiB};
  in_pieces.given.micro_batches = 2;
  EXPECT_EQ(choose(model, in_pieces, 4).chosen.layout.text(), "data 2, zero 2");
  const LayoutLimits of_level{.ranks = 2, .ranks_of_host = 2, .memory_bytes = 60 * kMiB, .zero = 3};
  EXPECT_EQ(choose(model, of_level, 2).chosen.layout.text(), "data 2, zero 3");
}

TEST(LayoutChoice, ActivationsThatDoNotFitAreComputedAgain) {
  const MadeUp model{.weights = 1000, .kept = 50e6, .peak = 60e6, .output = 1e6, .summed = 2e6};
  LayoutLimits limits{.ranks = 1, .memory_bytes = 100 * kMiB};
  EXPECT_EQ(choose(model, limits, 1).chosen.layout.text(), "data 1, recompute");
  limits.recompute_every = 0;
  const auto refused = choose(model, limits, 1);
  EXPECT_FALSE(refused.fits);
  EXPECT_TRUE(any_says(refused, "nothing fits into the 100 MiB of a rank"));
}

TEST(LayoutChoice, WhatCannotBeSplitIsCutIntoStages) {
  const MadeUp model{.weights = kMiB, .kept = 1e5, .peak = 1e5, .output = 1e3};
  LayoutLimits limits{.ranks = 2, .ranks_of_host = 1, .memory_bytes = 40 * kMiB};
  limits.given.micro_batches = 8;
  limits.why_not_shared_out = "a wire";
  const auto choice = choose(model, limits, 16);
  EXPECT_TRUE(choice.fits);
  EXPECT_EQ(choice.chosen.layout.text(), "data 1, pipe 2");
  EXPECT_NEAR(choice.chosen.slowdown, 9.0 / 8, 1e-9);  // (p-1) / (m+p-1) of the time
}

TEST(LayoutChoice, KeepsToWhatIsFixed) {
  const MadeUp model{.weights = kMiB, .kept = 8e6, .peak = 9e6, .output = 1e6, .summed = 2e6};
  LayoutLimits limits{.ranks = 4, .ranks_of_host = 4, .tensor = 2, .pipe = 2};
  EXPECT_EQ(choose(model, limits, 64).chosen.layout.text(), "data 1, tensor 2, pipe 2");
  limits.why_not_cut = "exact = true";
  const auto message = test::message_of([&] { (void)choose(model, limits, 64); }, Fault::Usage);
  EXPECT_EQ(
      message,
      "parallel = \"auto\" finds no layout of 4 ranks: tensor 2, pipe 2 are fixed, data x tensor x pipe is 4, and "
      "the tensor axis stays on a host, which has 4 ranks; layers are not cut, for that does not go with exact = "
      "true");
}

TEST(LayoutChoice, CountsPiecesAsTheyAre) {
  // 12 samples of a rank in 8 micro-batches: four of two samples, and four of one.
  const auto costs = made_up({.output = 1e6, .summed = 2e6}, 2);
  const Layout uneven{.data = 2, .tensor = 2, .micro_batches = 8}, even{.data = 2, .tensor = 2, .micro_batches = 12};
  const auto found = outlook(costs, uneven, facts_with(24));
  EXPECT_DOUBLE_EQ(found.slowdown, 1);
  EXPECT_DOUBLE_EQ(found.tensor_bytes, outlook(costs, even, facts_with(24)).tensor_bytes);
  // Of a rank with fewer samples than micro-batches each sample is one.
  const Layout many{.data = 2, .micro_batches = 8, .zero = 3}, few{.data = 2, .micro_batches = 2, .zero = 3};
  const auto of_many = outlook(costs, many, facts_with(4)), of_few = outlook(costs, few, facts_with(4));
  EXPECT_DOUBLE_EQ(of_many.slowdown, of_few.slowdown);
  EXPECT_DOUBLE_EQ(of_many.data_bytes, of_few.data_bytes);
  // Stages wait for the largest micro-batch, 16 samples where there are 12.
  const Layout stages{.data = 2, .pipe = 2, .micro_batches = 8};
  EXPECT_NEAR(outlook(costs, stages, facts_with(24)).slowdown,
              outlook(costs, stages, facts_with(32)).slowdown * 16 / 12, 1e-9);
}

TEST(LayoutChoice, IsAnOrder) {
  // Of neighbours that are less than a percent apart the one that moves least would be the first, and so round.
  std::vector<LayoutOutlook> all(40);
  for (std::size_t number = 0; number < all.size(); ++number) {
    all[number].slowdown = 1 + 0.006 * static_cast<double>(number % 4);
    all[number].data_bytes = static_cast<double>(100 - number % 4);
    all[number].layout.data = static_cast<int>(number / 4) + 1;
  }
  for (const auto& one : all) {
    EXPECT_FALSE(comes_before(one, one));
    for (const auto& other : all) {
      EXPECT_EQ(comes_before(one, other) || comes_before(other, one), &one != &other);
      for (const auto& third : all) {
        const bool follows = comes_before(one, other) && comes_before(other, third);
        EXPECT_TRUE(!follows || comes_before(one, third));
      }
    }
  }
}

TEST(LayoutChoice, NeedsNoModelThatIsWhole) {
  const MadeUp model{.weights = 64 * kMiB, .kept = 8e4, .peak = 9e4, .output = 1e4, .summed = 2e4};
  const auto split = made_up(model, 2);
  const auto costs = [&](int tensor) -> const parallel::ModelCosts& {
    if (tensor != 2) fail(Fault::Usage, "there is no room to measure it");
    return split;
  };
  const auto choice = choose_layout(costs, {.ranks = 2, .ranks_of_host = 2}, facts_with(4));
  EXPECT_EQ(choice.chosen.layout.text(), "data 1, tensor 2");
  EXPECT_TRUE(any_says(choice, "cannot be: tensor 1: there is no room to measure it"));
}

TEST(LayoutChoice, CutsAsIsGiven) {
  const MadeUp model{.weights = kMiB, .kept = 8e6, .peak = 9e6, .output = 1e6, .summed = 2e6};
  const LayoutLimits limits{.ranks = 4, .ranks_of_host = 4, .cuts = {0, 1}, .pipe = 2};
  const auto choice = choose(model, limits, 64);
  EXPECT_EQ(choice.chosen.layout.pipe, 2);
  EXPECT_EQ(choice.chosen.layout.cuts, (std::vector<std::size_t>{0, 1, 4}));
  const LayoutLimits others{.ranks = 4, .ranks_of_host = 4, .cuts = {0, 1}, .pipe = 4};
  EXPECT_NE(test::message_of([&] { (void)choose(model, others, 64); }, Fault::Usage)
                .find("parallel.cuts = [0, 1] does not cut a model into 4 stages"),
            std::string::npos);
}

TEST(LayoutChoice, SharesOutNoSparseGradients) {
  auto costs = made_up({.weights = kMiB, .kept = 1e6, .peak = 1e6, .output = 1e6, .summed = 1e9});
  costs.sparse = true;
  const auto choice =
      choose_layout([&](int) -> const parallel::ModelCosts& { return costs; },
                    {.ranks = 2, .ranks_of_host = 1, .memory_bytes = 60 * kMiB, .pipe = 1}, facts_with(2));
  EXPECT_FALSE(choice.fits);
  EXPECT_EQ(choice.chosen.layout.zero, 0);
}

TEST(LayoutChoice, KeepsToWhatARunTakes) {
  const MadeUp model{.weights = kMiB, .kept = 8e6, .peak = 9e6, .output = 1e6, .summed = 2e6};
  LayoutLimits limits{.ranks = 2, .ranks_of_host = 2, .least_zero = 3};
  limits.given.offload = kOffloadAll;
  EXPECT_EQ(choose(model, limits, 64).chosen.layout.zero, 3);
  limits.check = [](const Layout& layout, bool) {
    if (layout.data > 1) fail(Fault::Usage, "not so");
  };
  const auto choice = choose(model, limits, 64);
  EXPECT_EQ(choice.chosen.layout.data, 1);
  EXPECT_EQ(choice.chosen.layout.zero, 3);
  EXPECT_EQ(std::count_if(choice.reasons.begin(), choice.reasons.end(),
                          [](const std::string& reason) { return reason.ends_with("not so"); }),
            1);
}

TEST(Hosts, HaveDifferentlyManyRanks) {
  EXPECT_EQ(fewest_ranks_of_a_host({0, 0, 0, 1}), 1);
  EXPECT_EQ(fewest_ranks_of_a_host({0, 0, 0, 1, 1}), 2);
}

TEST(LayoutChoice, SaysWhatCannotBeSplit) {
  const auto choice = choose({.weights = 64 * kMiB, .kept = 8e4, .peak = 9e4, .output = 1e4, .summed = 2e4},
                             {.ranks = 8, .ranks_of_host = 8}, 8);
  EXPECT_EQ(choice.chosen.layout.tensor, 4);
  EXPECT_TRUE(any_says(choice, "cannot be: tensor 8: it has 4 heads"));
}

}  // namespace
}  // namespace lockstep::train
