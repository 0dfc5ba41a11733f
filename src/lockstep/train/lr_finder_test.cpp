#include "lockstep/train/lr_finder.h"

#include <cmath>

#include <gtest/gtest.h>

#include "lockstep/core/error.h"
#include "lockstep/train/testing.h"

namespace lockstep::train {
namespace {

using testing::kBlobs;

/// What each rank found.
std::vector<LrFound> found_on(int ranks, const std::vector<std::string>& settings, const LrSweep& sweep) {
  std::vector<LrFound> all(static_cast<std::size_t>(ranks));
  comm::testing::on_ranks({ranks}, [&](comm::Communicator& group) {
    Config recipe = Config::from_text(kBlobs);
    for (const auto& setting : settings) recipe.set(setting);
    auto run = make_run(recipe, group);
    all[static_cast<std::size_t>(group.rank())] = find_lr(group, run.settings, *run.task, run.data, sweep);
  });
  return all;
}

std::vector<double> losses_of(const LrFound& found) {
  std::vector<double> result;
  for (const auto& point : found.points) result.push_back(point.loss);
  return result;
}

TEST(LrFinder, SweepsUntilTheLossDiverges) {
  const LrSweep sweep{1e-4, 1e4, 200};
  const auto found = found_on(2, {"optimizer.name=sgd", "exact=false"}, sweep)[0];
  EXPECT_TRUE(found.diverged);
  EXPECT_LT(found.points.size(), 200U);
  ASSERT_GT(found.points.size(), 20U);
  EXPECT_DOUBLE_EQ(found.points[0].lr, 1e-4);
  for (std::size_t i = 1; i < found.points.size(); ++i) {
    EXPECT_NEAR(found.points[i].lr / found.points[i - 1].lr, std::pow(1e8, 1.0 / 199), 1e-9);
    EXPECT_TRUE(std::isfinite(found.points[i].loss));
  }
  ASSERT_TRUE(found.suggested);
  EXPECT_GT(*found.suggested, sweep.from);
  EXPECT_LT(*found.suggested, found.points.back().lr);
  // It is worth something.
  const auto loss = [](double lr) {
    return testing::train(2,
                          {"optimizer.name=sgd", "steps=40", "model.dropout=0", "optimizer.lr=" + std::to_string(lr)})
        .result.loss;
  };
  EXPECT_LT(loss(*found.suggested), 0.7 * loss(0.001));
}

TEST(LrFinder, IsForRecipesThatFuseSteps) {
  EXPECT_EQ(found_on(2, {"fuse_step=true"}, {1e-4, 1e-2, 20})[0].points.size(), 20U);
}

TEST(LrFinder, FindsTheSameOnAnyNumberOfRanks) {
  const LrSweep sweep{1e-4, 100, 60};
  const auto alone = found_on(1, {"callbacks.guard={}"}, sweep)[0];
  ASSERT_TRUE(alone.suggested);
  for (const int ranks : {2, 3}) {
    for (const auto& found : found_on(ranks, {}, sweep)) {
      EXPECT_EQ(losses_of(found), losses_of(alone)) << ranks;
      EXPECT_EQ(found.suggested, alone.suggested);
    }
  }
}

TEST(LrFinder, ReachesTheEndOfAModestSweep) {
  const auto found = found_on(2, {}, {1e-6, 1e-3, 30})[0];
  EXPECT_FALSE(found.diverged);
  EXPECT_EQ(found.points.size(), 30U);
  EXPECT_DOUBLE_EQ(found.points.back().lr, 1e-3);
}

TEST(LrFinder, SuggestsNothingWhereTheLossNeverFalls) {
  const auto found = found_on(1, {"optimizer.name=sgd", "exact=false"}, {1e20, 1e30, 20})[0];
  EXPECT_TRUE(found.diverged);
  EXPECT_FALSE(found.suggested);
}

TEST(LrFinder, RefusesRatesThatDoNotRise) {
  for (const LrSweep& sweep : {LrSweep{0, 1, 100}, LrSweep{1, 0.1, 100}, LrSweep{1e-3, 1, 5},
                               LrSweep{1e-3, std::numeric_limits<double>::infinity(), 100}}) {
    EXPECT_THROW(found_on(1, {}, sweep), Error);
  }
}

}  // namespace
}  // namespace lockstep::train
