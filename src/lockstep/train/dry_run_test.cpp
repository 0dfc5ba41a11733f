#include "lockstep/train/dry_run.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/core/memory_of_process.h"
#include "lockstep/core/text.h"
#include "lockstep/train/memory_forecast.h"
#include "lockstep/train/testing.h"

namespace lockstep::train {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

DryRun ask(int ranks, const std::vector<std::string>& settings, std::int64_t room) {
  Config recipe = Config::from_text(testing::kGpt);
  for (const char* setting : {"model.layers=6", "clip_norm=1.0", "checkpoints.staging_bytes=0"}) recipe.set(setting);
  for (const auto& setting : settings) recipe.set(setting);
  return dry_run(recipe, ranks, {room * ranks, "the test grants", ranks});
}

bool proposes(const DryRun& found, const std::string& settings) {
  return std::any_of(found.remedies.begin(), found.remedies.end(),
                     [&](const Remedy& remedy) { return remedy.settings == settings; });
}

TEST(DryRun, SaysWhatFits) {
  const auto found = ask(2, {}, 1024 * kMiB);
  EXPECT_TRUE(found.fits);
  EXPECT_TRUE(found.remedies.empty());
  const std::string text = found.text();
  EXPECT_SAYS(text, "layout: data 2 on 2 ranks");
  EXPECT_SAYS(text, "micro-batches: 1 of 4 samples");
  EXPECT_SAYS(text, "it fits: ");
  EXPECT_EQ(found.json()["memory"]["weights_bytes"], found.outlook.memory.weights);
}

TEST(DryRun, ShowsStages) {
  const auto found = ask(2, {"parallel.pipe=2", "accumulate=4"}, 1024 * kMiB);
  ASSERT_EQ(found.stages.size(), 2U);
  EXPECT_SAYS(found.stages[0], "stage 0: embedding to h.");
  EXPECT_SAYS(found.text(), "1f1b leaves stages idle 20.0 % of the time");
  const auto fixed = ask(2, {"parallel.pipe=2", "parallel.cuts=[0, 3]", "accumulate=4"}, 1024 * kMiB);
  EXPECT_EQ(fixed.outlook.layout.cuts, (std::vector<std::size_t>{0, 3, 8}));
}

TEST(DryRun, SaysWhatWouldFit) {
  const auto whole = ask(2, {}, 1024 * kMiB).outlook.memory;
  // Everything but half of what the optimiser remembers.
  const std::int64_t room = needed_bytes(whole) - whole.optimizer / 4;
  const auto states = ask(2, {}, room);
  EXPECT_FALSE(states.fits);
  EXPECT_TRUE(proposes(states, "parallel.zero=1")) << states.text();
  EXPECT_SAYS(states.text(), "it does not fit: ");
  for (const auto& remedy : states.remedies) {
    EXPECT_LE(needed_bytes(remedy.outlook.memory), room) << remedy.settings;
  }
  const auto pieces = ask(1, {"batch=64"}, needed_bytes(ask(1, {"batch=64"}, 1024 * kMiB).outlook.memory) - 64 * 1024);
  EXPECT_TRUE(proposes(pieces, "accumulate=2")) << pieces.text();
  EXPECT_TRUE(proposes(pieces, "recompute=full")) << pieces.text();
  // A rank alone cannot have less than a part of it, others or the disk can.
  const auto alone = ask(1, {"recompute=full", "batch=1", "checkpoints.staging_bytes=0"}, whole.weights * 3);
  EXPECT_TRUE(!alone.remedies.empty() && alone.remedies.front().settings.starts_with("-n 2")) << alone.text();
  EXPECT_FALSE(ask(2, {}, kMiB / 64).smallest.empty());
}

TEST(DryRun, ProposesWhatCanBeSet) {
  // What it proposes is what a run can be started with.
  const auto whole = ask(2, {}, 1024 * kMiB).outlook.memory;
  for (const auto& remedy : ask(2, {}, needed_bytes(whole) - whole.optimizer / 4).remedies) {
    if (remedy.settings.find("offload") != std::string::npos || remedy.settings.starts_with("-n")) continue;
    const auto again = ask(2, split(remedy.settings, ' '), 1024 * kMiB);
    EXPECT_EQ(again.outlook.memory.total(), remedy.outlook.memory.total()) << remedy.settings;
  }
}

TEST(DryRun, DoesNotTouchTheModel) {
  // 25 GB of weights: 96 blocks of 256 MB.
  const std::vector<std::string> large{"model.width=2304", "model.layers=96", "model.heads=4", "batch=2"};
  give_back_freed_memory();
  const std::int64_t before = anonymous_bytes();
  const auto found = ask(1, large, 1024 * kMiB);
  EXPECT_FALSE(found.fits);
  EXPECT_GT(found.outlook.memory.weights, std::int64_t{20} << 30);
  EXPECT_LT(anonymous_bytes() - before, std::int64_t{1} << 30);
}

TEST(DryRun, ChoosesBeforeItSays) {
  const auto found = ask(2, {"parallel.layout=auto"}, 1024 * kMiB);
  EXPECT_TRUE(found.fits);
  EXPECT_EQ(found.outlook.layout.ranks(), 2);
  ASSERT_FALSE(found.reasons.empty());
  EXPECT_SAYS(found.text(), "chosen is ");
}

TEST(DryRun, KeepsToTheCutsThatAreGiven) {
  const std::vector<std::string> cuts{"parallel.cuts=[0, 3]", "accumulate=4"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), cuts.begin(), cuts.end());
    return more;
  };
  const auto chosen = ask(4, with({"parallel.layout=auto"}), 1024 * kMiB);
  EXPECT_EQ(chosen.outlook.layout.pipe, 2);
  EXPECT_EQ(chosen.outlook.layout.cuts, (std::vector<std::size_t>{0, 3, 8}));
  const auto uneven = [&] { (void)ask(4, with({"parallel.layout=auto", "parallel.chunks=3"}), 1024 * kMiB); };
  EXPECT_SAYS(test::message_of(uneven, Fault::Usage), "into 2 pieces, and parallel.chunks = 3 does not divide them");
  const auto given = ask(4, with({"parallel.pipe=2"}), 1024 * kMiB).outlook.memory;
  const auto found = ask(4, with({"parallel.pipe=2"}), given.weights * 2);
  EXPECT_FALSE(found.fits);
  for (const auto& remedy : found.remedies)
    EXPECT_EQ(remedy.settings.find("parallel.pipe="), std::string::npos) << remedy.settings;
}

TEST(DryRun, SaysWhatReplacesAText) {
  const auto whole = ask(2, {}, 1024 * kMiB).outlook.memory;
  const auto found = ask(1, {"parallel=auto", "recompute=full", "batch=1"}, whole.weights * 3);
  ASSERT_FALSE(found.remedies.empty()) << found.text();
  for (const auto& remedy : found.remedies) {
    EXPECT_SAYS(remedy.settings, "parallel = { layout = \"auto\", ");
    EXPECT_EQ(remedy.settings.find("parallel."), std::string::npos) << remedy.settings;
  }
}

TEST(DryRun, RefusesWhatARunRefuses) {
  const auto refused = [](const std::vector<std::string>& settings) {
    return test::message_of([&] { (void)ask(2, settings, kMiB); }, Fault::Usage);
  };
  EXPECT_SAYS(refused({"parallel.tensr=2"}), "did you mean");
  EXPECT_SAYS(refused({"parallel.tensor=3"}), "2 ranks for ");
  EXPECT_SAYS(refused({"parallel.tensor=2", "exact=true"}), "does not go with exact = true");
  EXPECT_SAYS(refused({"parallel.layout=best"}), "parallel.layout = \"best\": it is \"auto\", or left out");
  EXPECT_SAYS(refused({"parallel=best"}), "it is a table, or \"auto\"");
  EXPECT_SAYS(refused({"parallel.pipe=2", "parallel.cuts=[1, 3]"}), "0 embedding, 1 h.0");
  EXPECT_SAYS(refused({"batch=0"}), "batch = 0: it is from 1 on");
  EXPECT_SAYS(refused({"batch=9223372036854775807"}), "it is from 1 to 2147483648");
  EXPECT_SAYS(refused({"steps=-3"}), "steps = -3: it is from 0 on");
  EXPECT_SAYS(refused({"accumulate=0"}), "accumulate = 0: it is from 1 on");
  EXPECT_SAYS(refused({"parallel.offload=al"}), "parallel.offload = \"al\": it is \"none\"");
  EXPECT_SAYS(refused({"parallel.offload=all"}), "needs parallel.zero = 3");
  EXPECT_SAYS(refused({"parallel.zero=2", "exact=true"}), "parallel.zero = 2 does not go with exact = true");
  EXPECT_SAYS(refused({"exact=true", "shards=1"}), "2 ranks are more than 1 shards");
  EXPECT_SAYS(refused({"schedule.name=plateau"}), "set data.validation");
  EXPECT_SAYS(refused({"model.name=mlp", "recompute=selective"}), "the model 'mlp' says of none that it is");
  EXPECT_SAYS(refused({"model.weights=all.safetensors", "parallel.tensor=2"}), "model.weights is of a whole model");
  const auto uneven =
      test::message_of([] { (void)ask(4, {"parallel.zero=1", "parallel.zero_ranks=3"}, 1024 * kMiB); }, Fault::Usage);
  EXPECT_SAYS(uneven, "parallel.zero_ranks = 3 does not divide the 4 ranks");
}

TEST(DryRun, SharesOutOverTheRanksOfAHost) {
  Config recipe = Config::from_text(testing::kGpt);
  for (const char* setting : {"parallel.zero=3", "parallel.zero_ranks=host"}) recipe.set(setting);
  for (const int of_host : {2, 4}) {
    const MemoryLimit limit{1024 * kMiB * of_host, "the test grants", of_host};
    EXPECT_EQ(dry_run(recipe, 4, limit).outlook.layout.zero_ranks, of_host);
    Config chosen = Config::from_text(testing::kGpt);
    for (const char* setting : {"parallel.layout=auto", "parallel.zero=3", "parallel.tensor=1", "parallel.pipe=1",
                                "parallel.zero_ranks=host"})
      chosen.set(setting);
    EXPECT_EQ(dry_run(chosen, 4, limit).outlook.layout.zero_ranks, of_host);
  }
}

TEST(DryRun, LooksForRoomOnTheDisk) {
  const std::vector<std::string> offloads{"parallel.zero=3", "parallel.offload=all"};
  const auto with = [&](const std::string& more) {
    auto all = offloads;
    all.push_back(more);
    return all;
  };
  const auto found = ask(2, offloads, 1024 * kMiB);
  // A rank's half of the weights, and Adam's two numbers of each.
  const auto whole = ask(2, {"parallel.zero=0", "fuse_step=false"}, 1024 * kMiB).outlook.memory;
  EXPECT_NEAR(static_cast<double>(found.outlook.memory.disk), 1.5 * static_cast<double>(whole.weights),
              0.01 * static_cast<double>(whole.weights));
  EXPECT_SAYS(found.text(), "; on disk ");
  EXPECT_SAYS(test::message_of([&] { (void)ask(2, with("parallel.offload_folder=/nowhere"), kMiB); }, Fault::Usage),
              "parallel.offload needs /nowhere: No such file or directory");
}

TEST(DryRun, CountsWhatLiesInMemoryAllTheSame) {
  const auto found = ask(2, {"parallel.zero=3", "parallel.offload=all", "parallel.offload_folder=/dev/shm"}, 1 << 30);
  const auto in_memory = ask(2, {"parallel.zero=3"}, 1 << 30);
  const auto held = [](const parallel::MemoryUse& use) {
    return use.total() - use.activations - use.buffers - use.staging;
  };
  EXPECT_GT(found.outlook.memory.disk, 0);  // for which there must be room, too
  EXPECT_EQ(held(found.outlook.memory), held(in_memory.outlook.memory));
}

TEST(DryRun, ChoosesWhatARunTakes) {
  EXPECT_EQ(ask(2, {"parallel.layout=auto", "parallel.offload=all"}, 1024 * kMiB).outlook.layout.zero, 3);
  EXPECT_EQ(ask(1, {"parallel.layout=auto", "parallel.offload=optimizer"}, 1024 * kMiB).outlook.layout.zero, 1);
}

TEST(DryRun, ProposesAsManyRanksAsItsAxesHave) {
  const auto whole = ask(2, {"parallel.data=2"}, 1024 * kMiB).outlook.memory;
  const auto found = ask(2, {"parallel.data=2"}, whole.weights);
  ASSERT_FALSE(found.remedies.empty()) << found.text();
  for (const auto& [settings, would_be] : found.remedies) {
    const bool says = settings.find("parallel.data=") != std::string::npos;
    EXPECT_EQ(says, would_be.layout.data != 2) << settings;
  }
}

TEST(DryRun, LeavesOutWhatNobodyWouldWaitFor) {
  const std::vector<std::string> one_sample{"batch=1", "recompute=full"};
  const auto whole = ask(1, one_sample, 1024 * kMiB);
  const auto found = ask(1, one_sample, whole.outlook.memory.weights * 3);
  ASSERT_FALSE(found.remedies.empty());
  for (const auto& remedy : found.remedies) {
    EXPECT_LE(remedy.outlook.slowdown, 5 * whole.outlook.slowdown) << remedy.settings;
  }
}

TEST(DryRun, EndsWhateverTheBatch) {
  const auto found = ask(2, {"batch=2147483648"}, 1024 * kMiB);
  EXPECT_FALSE(found.fits);
  EXPECT_GT(found.outlook.memory.activations, std::int64_t{1} << 40);
}

}  // namespace
}  // namespace lockstep::train
