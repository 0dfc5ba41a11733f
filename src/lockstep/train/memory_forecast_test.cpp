#include "lockstep/train/memory_forecast.h"

#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lockstep/train/costs_testing.h"
#include "lockstep/train/stage_shares.h"
#include "lockstep/train/testing.h"

namespace lockstep::train {
namespace {

using testing::facts_with;
using testing::kGpt;
using testing::made_up;
using testing::MadeUp;

TEST(MemoryForecast, CountsActivationsOfWhatIsUnderWay) {
  const MadeUp model{.links = 4, .kept = 1000, .peak = 1500, .output = 100};
  const auto activations = [&](const Layout& layout, int stage = 0) {
    return forecast(made_up(model), layout, facts_with(8)).at(static_cast<std::size_t>(stage)).activations;
  };
  // Of 8 samples: the input, what three links keep, and the last at work.
  EXPECT_EQ(activations({}), 8 * (100 + 3 * 1000 + 1500));
  EXPECT_EQ(activations({.micro_batches = 4}), 2 * (100 + 3 * 1000 + 1500));
  EXPECT_EQ(activations({.data = 4}), 2 * (100 + 3 * 1000 + 1500));
  // Outputs alone are kept.
  EXPECT_EQ(activations({.recompute_every = 1}), 8 * (100 + 3 * 100 + 1500));
  EXPECT_EQ(activations({.recompute_every = 2}), 8 * (100 + 2 * 100 + 1000 + 1500));
  // Two micro-batches on the first stage, one on the last.
  const Layout staged{.pipe = 2, .micro_batches = 8};
  EXPECT_EQ(activations(staged, 0), (100 + 2 * 1000) + (100 + 1000 + 1500));
  EXPECT_EQ(activations(staged, 1), 100 + 1000 + 1500);
  const Layout all_first{.pipe = 2, .schedule = "gpipe", .micro_batches = 8};
  EXPECT_EQ(activations(all_first, 0), 7 * (100 + 2 * 1000) + (100 + 1000 + 1500));
}

TEST(MemoryForecast, CountsCopiesForACheckpoint) {
  const auto staging = [](const Layout& layout, std::int64_t staging_bytes) {
    auto facts = facts_with(8);
    facts.staging_bytes = staging_bytes;
    return forecast(made_up({.links = 4, .weights = 1000}), layout, facts).at(0).staging;
  };
  EXPECT_EQ(staging({}, 0), 0);
  EXPECT_EQ(staging({}, 5000), 5000);
  // Weights and two states of each.
  EXPECT_EQ(staging({}, 1 << 20), 3 * 4 * 4000);
  // Of two ranks each writes half of the tensors, or one more.
  EXPECT_EQ(staging({.data = 2}, 1 << 20), 3 * 4 * 4000 / 2 + 4000);
  // It owns half, and what is between parameters.
  const Layout shared{.data = 2, .zero = 1};
  EXPECT_NEAR(static_cast<double>(staging(shared, 1 << 20) - staging(shared, 0)), 3 * 4 * 4000 / 2, 300);
}

TEST(MemoryForecast, CountsALargeLinkBesideTheNextOnlyWhereThereIsRoom) {
  constexpr std::int64_t kSmall = 4 * 1600;
  const auto buffers = [](std::int64_t large) {
    auto costs = made_up({.links = 4, .weights = kSmall / 4});
    costs.parameters[0].tensor = at::empty({large / 4}, costs.parameters[0].tensor.options()).requires_grad_();
    return forecast(costs, {.data = 2, .zero = 3, .unit_bytes = 0}, facts_with(2)).at(0).buffers;
  };
  // Weights and gradients, of the one alone or of both.
  EXPECT_EQ(buffers(80'000'000), 2 * 80'000'000);
  EXPECT_EQ(buffers(32'000'000), 2 * (32'000'000 + kSmall));
}

TEST(MemoryForecast, CountsMessagesOnTheirWay) {
  const MadeUp model{.links = 4, .output = 100};
  const auto buffers = [&](const std::string& schedule, int micro_batches) {
    const Layout layout{.pipe = 2, .schedule = schedule, .micro_batches = micro_batches};
    return most_of_each(forecast(made_up(model), layout, facts_with(micro_batches))).buffers;
  };
  EXPECT_EQ(buffers("1f1b", 4), 2 * 100);
  EXPECT_EQ(buffers("1f1b", 16), 2 * 100);
  EXPECT_EQ(buffers("gpipe", 16), 16 * 100);

  const auto taken = [](int micro_batches) {
    const std::vector<std::string> settings{"parallel.pipe=2", fmt::format("accumulate={}", micro_batches),
                                            fmt::format("batch={}", micro_batches)};
    return testing::train(2, settings, {}, kGpt).result.memory.use.buffers;
  };
  // Two messages of 32 positions.
  constexpr std::int64_t kMessage = 32 * 64 * 4;
  EXPECT_GE(taken(4), kMessage);
  EXPECT_LE(taken(32), 2 * kMessage);
}

TEST(StageShares, AreBalancedByTime) {
  auto costs = made_up({.links = 4});
  costs.links[0].seconds = {0, 3};
  const Layout layout{.pipe = 2};
  const auto cuts = cuts_of(costs, layout, facts_with(2));
  EXPECT_EQ(cuts, (std::vector<std::size_t>{0, 1, 4}));
  const auto lines = stage_lines(costs.chain, cuts, 2, seconds_of(costs, 2));
  EXPECT_EQ(lines.at(0), "stage 0: link0, 50.0 % of the time");
  EXPECT_EQ(lines.at(1), "stage 1: link1 to link3, 50.0 % of the time");
}

TEST(StageShares, AreBalancedAsARunDoes) {
  comm::testing::on_ranks({2}, [](comm::Communicator& world) {
    Config recipe = Config::from_text(kGpt);
    // By the sizes of matrices the head is as heavy as ten blocks.
    for (const char* setting : {"parallel.pipe=2", "accumulate=2", "parallel.costs=parameters", "task.vocabulary=8000"})
      recipe.set(setting);
    const auto run = make_run(recipe, world);
    Layout layout = run.layout;
    layout.cuts = {};
    EXPECT_EQ(cuts_of(run.probe->costs(), layout, run.facts), run.layout.cuts);
  });
  // What links take says nothing then.
  auto costs = made_up({.links = 4});
  costs.links[3].seconds = {0, 100};
  auto facts = facts_with(2);
  facts.measured = false;
  EXPECT_EQ(cuts_of(costs, {.pipe = 2}, facts), (std::vector<std::size_t>{0, 2, 4}));
}

struct Case {
  std::string name;
  int ranks;
  std::vector<std::string> settings;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

/// What runs take, of ranks that are threads, and what was foretold.
class Foretold : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Layouts, Foretold,
    ::testing::Values(Case{"one", 1, {}}, Case{"pieces4", 1, {"accumulate=4"}},
                      Case{"recompute", 1, {"recompute=full"}}, Case{"recompute_half", 1, {"recompute=2"}},
                      Case{"float64", 1, {"precision=float64"}}, Case{"data2", 2, {}},
                      Case{"data2_clipped", 2, {"clip_norm=1.0"}}, Case{"tensor2", 2, {"parallel.tensor=2"}},
                      Case{"zero1_data2", 2, {"parallel.zero=1", "clip_norm=1.0"}},
                      Case{"zero1_data2_pieces2", 2, {"parallel.zero=1", "clip_norm=1.0", "accumulate=2"}},
                      Case{"zero2_data2", 2, {"parallel.zero=2"}},
                      Case{"zero3_data2", 2, {"parallel.zero=3", "parallel.unit_bytes=0"}},
                      Case{"zero3_data4_pieces2", 4, {"parallel.zero=3", "parallel.unit_bytes=0", "accumulate=2"}},
                      Case{"zero3_data4_copies2", 4, {"parallel.zero=3", "parallel.zero_ranks=2"}},
                      Case{"zero1_data2_on_disk", 2, {"parallel.zero=1", "parallel.offload=optimizer"}},
                      Case{"zero3_alone_on_disk", 1, {"parallel.zero=3", "parallel.offload=all"}},
                      Case{"zero3_data2_on_disk",
                           2,
                           {"parallel.zero=3", "parallel.offload=all", "parallel.unit_bytes=0", "accumulate=2"}},
                      Case{"pipe2", 2, {"parallel.pipe=2", "accumulate=4"}},
                      Case{"pipe2_zero3_data2", 4, {"parallel.pipe=2", "parallel.zero=3", "accumulate=2"}},
                      Case{"pipe2_zero3_data2_interleaved",
                           4,
                           {"parallel.pipe=2", "parallel.zero=3", "parallel.unit_bytes=0",
                            "parallel.schedule=interleaved", "accumulate=4"}},
                      Case{"pipe2_zero3_data2_zero_bubble",
                           4,
                           {"parallel.pipe=2", "parallel.zero=3", "parallel.unit_bytes=0",
                            "parallel.schedule=zero_bubble", "accumulate=4"}},
                      Case{"tensor2_zero3_data2", 4, {"parallel.tensor=2", "parallel.zero=3"}},
                      Case{"tensor2_sequence", 2, {"parallel.tensor=2", "parallel.sequence=true"}}),
    [](const auto& test) { return test.param.name; });

TEST_P(Foretold, IsWhatARunTakes) {
  const auto& [name, ranks, settings] = GetParam();
  comm::testing::on_ranks({ranks}, [&, ranks = ranks, &settings = settings](comm::Communicator& world) {
    Config recipe = Config::from_text(kGpt);
    for (const auto& setting : settings) recipe.set(setting);
    auto run = make_run(recipe, world);
    run.facts.staging_bytes = 0;       // no checkpoint is made
    run.facts.disk_is_memory = false;  // it lies in a file, wherever that is
    const auto foretold = most_of_each(forecast(run.probe->costs(run.layout.tensor), run.layout, run.facts));
    const auto taken = Trainer(world, run.settings).fit(*run.task, run.data).memory.use;
    if (world.rank() > 0) return;
    const auto near = [](std::int64_t one, std::int64_t other, double tolerance, const char* what) {
      const auto larger = static_cast<double>(std::max(one, other));
      EXPECT_LE(std::abs(static_cast<double>(one - other)), tolerance * larger) << what << " " << one << " " << other;
    };
    near(foretold.weights, taken.weights, 0.01, "weights");
    near(foretold.gradients, taken.gradients, 0.01, "gradients");
    near(foretold.optimizer, taken.optimizer, 0.02, "optimizer");
    // How many messages are on their way at once is a matter of time.
    if (run.layout.pipe == 1) near(foretold.buffers, taken.buffers, 0.05, "buffers");
    EXPECT_LE(static_cast<double>(taken.buffers), 1.05 * static_cast<double>(foretold.buffers));
    near(foretold.activations, taken.activations, 0.1, "activations");
  });
}

}  // namespace
}  // namespace lockstep::train
