// Every schedule at the steps where its value is known.
#include <gtest/gtest.h>

#include "lockstep/core/error.h"
#include "lockstep/train/schedule.h"

namespace lockstep::train {
namespace {

std::unique_ptr<Schedule> make(const std::string& text, std::int64_t steps = 100) {
  const Config recipe = Config::from_text("[schedule]\n" + text);
  auto schedule = make_schedule(recipe, "schedule", {steps, 10});
  recipe.finish();
  return schedule;
}

TEST(Schedules, Constant) {
  const auto schedule = make("");
  EXPECT_EQ(schedule->factor(0), 1);
  EXPECT_EQ(schedule->factor(99), 1);
}

TEST(Schedules, Step) {
  const auto schedule = make("name = 'step'\nevery_epochs = 2\ngamma = 0.5");
  EXPECT_EQ(schedule->factor(19), 1);
  EXPECT_EQ(schedule->factor(20), 0.5);
  EXPECT_EQ(schedule->factor(59), 0.25);
}

TEST(Schedules, Cosine) {
  const auto schedule = make("name = 'cosine'\nlast = 0.2");
  EXPECT_EQ(schedule->factor(0), 1);
  EXPECT_NEAR(schedule->factor(50), 0.6, 1e-12);
  EXPECT_NEAR(schedule->factor(100), 0.2, 1e-12);
}

// The values of torch.optim.lr_scheduler.OneCycleLR(max_lr=1, total_steps=100, pct_start=0.3, div_factor=25,
// final_div_factor=1e4).
TEST(Schedules, OneCycle) {
  const auto schedule = make("name = 'one_cycle'");
  EXPECT_NEAR(schedule->factor(0), 0.04, 1e-12);
  EXPECT_NEAR(schedule->factor(29), 1, 1e-12);
  EXPECT_NEAR(schedule->factor(64), (1 + 4e-6) / 2, 1e-12);
  EXPECT_NEAR(schedule->factor(99), 4e-6, 1e-12);
}

TEST(Schedules, OneCycleMayRiseInOneStep) {
  for (const auto& [rise, steps] : {std::pair("0.1", 10), std::pair("0.5", 2), std::pair("0.1", 3)}) {
    const auto schedule = make(std::string("name = 'one_cycle'\nrise = ") + rise, steps);
    for (std::int64_t step = 0; step < steps; ++step) {
      EXPECT_GE(schedule->factor(step), 4e-6 * (1 - 1e-9)) << rise << ", " << step;
      EXPECT_LE(schedule->factor(step), 1) << rise << ", " << step;
    }
    EXPECT_NEAR(schedule->factor(steps - 1), 4e-6, 1e-12) << rise;
  }
  EXPECT_NEAR(make("name = 'one_cycle'\nrise = 0.1", 10)->factor(0), 1, 1e-12);
}

TEST(Schedules, WarmUpComesFirst) {
  const auto schedule = make("name = 'cosine'\nwarmup_epochs = 2\nwarmup_start = 0.5");
  EXPECT_EQ(schedule->factor(0), 0.5);
  EXPECT_NEAR(schedule->factor(10), 0.75, 1e-12);
  EXPECT_EQ(schedule->factor(20), 1);
  EXPECT_NEAR(schedule->factor(60), 0.5, 1e-12);
  EXPECT_NEAR(make("warmup_steps = 200\nwarmup_start = 0.0")->factor(99), 0.495, 1e-12);
  EXPECT_THROW(make("warmup_steps = -1"), Error);
  EXPECT_THROW(make("warmup_start = 2.0"), Error);
}

TEST(Schedules, SayTheirNamesAndWhatTheyNeed) {
  for (const char* warm_up : {"", "\nwarmup_steps = 3"}) {
    EXPECT_EQ(make(std::string("name = 'plateau'") + warm_up)->name, "plateau");
    EXPECT_TRUE(make(std::string("name = 'plateau'") + warm_up)->needs_validation());
    EXPECT_FALSE(make(std::string("name = 'cosine'") + warm_up)->needs_validation());
  }
}

TEST(Schedules, PlateauRefusesAStateOfOthers) {
  for (const char* state : {"", "1", "0.5 0.25", "0.5 0.25 x", "nan 1 1", "-1 1 1", "1 1 1 1"}) {
    EXPECT_THROW(make("name = 'plateau'")->set_state(state), Error) << state;
  }
}

TEST(Schedules, PlateauRemembers) {
  const auto schedule = make("name = 'plateau'\ngamma = 0.5\npatience = 1");
  for (const double loss : {1.0, 0.9, 0.9}) schedule->observe(loss);
  EXPECT_EQ(schedule->factor(3), 1);
  schedule->observe(0.95);
  EXPECT_EQ(schedule->factor(4), 0.5);
  const auto again = make("name = 'plateau'\ngamma = 0.5\npatience = 1");
  again->set_state(schedule->state());
  for (const double loss : {0.91, 0.92}) {
    schedule->observe(loss);
    again->observe(loss);
    EXPECT_EQ(again->factor(0), schedule->factor(0));
  }
  EXPECT_EQ(again->factor(0), 0.25);
}

}  // namespace
}  // namespace lockstep::train
