#include "lockstep/train/best_steps.h"

#include <cmath>

#include <gtest/gtest.h>

#include "lockstep/core/error.h"

namespace lockstep::train {
namespace {

using Steps = std::vector<std::int64_t>;

TEST(BestSteps, KnowsWhichWayIsBetter) {
  BestSteps losses("loss"), accuracies("accuracy");
  for (const auto& [step, figure] : {std::pair(10, 0.5), std::pair(20, 0.2), std::pair(30, 0.2), std::pair(40, 0.7)}) {
    losses.judge(step, {{"loss", figure}});
    accuracies.judge(step, {{"loss", 0}, {"accuracy", figure}});
  }
  EXPECT_EQ(losses.best(3), (Steps{20, 30, 10}));  // of equals the earlier
  EXPECT_EQ(accuracies.best(2), (Steps{40, 10}));
  EXPECT_EQ(losses.best(2, {10, 30, 40}), (Steps{30, 10}));
  EXPECT_EQ(losses.best(0), Steps{});
  losses.forget(20);
  EXPECT_EQ(losses.best(1), Steps{30});
  EXPECT_THROW(losses.judge(50, {{"accuracy", 1}}), Error);
}

TEST(BestSteps, ThatAreNoNumberAreNever) {
  for (const char* figure : {"loss", "accuracy"}) {
    BestSteps best(figure);
    best.judge(1, {{figure, std::nan("")}});
    EXPECT_EQ(best.best(5), Steps{}) << figure;
    for (std::int64_t step = 2; step < 40; ++step) {
      best.judge(step, {{figure, step % 3 == 0 ? std::nan("") : 0.5}});
    }
    EXPECT_EQ(best.best(3), (Steps{2, 4, 5})) << figure;
    best.judge(2, {{figure, std::nan("")}});
    EXPECT_EQ(best.best(1), Steps{4}) << figure;
  }
}

TEST(BestSteps, AreRecalledFromValidations) {
  BestSteps best("accuracy");
  best.recall({{"validation", 5, 1, 10, {{"loss", 1}, {"accuracy", 0.5}}},
               {"validation", 6, 1, 10, {{"loss", 1}}},
               {"test", 7, 1, 10, {{"loss", 1}, {"accuracy", 0.9}}}});
  EXPECT_EQ(best.best(5), Steps{5});
  best.judge(8, {{"accuracy", 0.4}});
  best.forget_all_but({2, 8});
  EXPECT_EQ(best.best(5), Steps{8});
}

}  // namespace
}  // namespace lockstep::train
