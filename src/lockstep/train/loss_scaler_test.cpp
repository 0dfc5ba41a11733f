#include "lockstep/train/loss_scaler.h"

#include <gtest/gtest.h>

#include "lockstep/core/error.h"

namespace lockstep::train {
namespace {

TEST(LossScaler, HalvesAtOnceAndDoublesAfterManyGoodSteps) {
  LossScaler scaler({.start = 1024, .grow_after = 3});
  scaler.update(true);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 1024);
  scaler.update(false);
  EXPECT_EQ(scaler.scale(), 512);
  // What was good before counts no more.
  for (int i = 0; i < 2; ++i) scaler.update(true);
  EXPECT_EQ(scaler.scale(), 512);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 1024);
}

TEST(LossScaler, GoesOnFromItsState) {
  LossScaler one({.start = 256, .grow_after = 4});
  for (const bool taken : {true, false, true, true, true}) one.update(taken);
  LossScaler other({.start = 65536, .grow_after = 4});
  other.set_state(nlohmann::json::parse(one.state().dump()));
  EXPECT_EQ(other.scale(), 128);
  other.update(true);
  EXPECT_EQ(other.scale(), 256);
}

TEST(LossScaler, IsExhaustedWhenHalvingDoesNotHelp) {
  LossScaler scaler({.start = 4});
  for (int i = 0; i < 18; ++i) scaler.update(false);
  EXPECT_FALSE(scaler.exhausted());
  scaler.update(false);
  EXPECT_TRUE(scaler.exhausted());
}

TEST(LossScaler, RefusesWhatWouldRound) {
  for (const double start : {0.0, -2.0, 1000.0, 1e300}) {
    try {
      LossScaler scaler({.start = start});
      FAIL() << start;
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Usage);
      EXPECT_NE(error.message().find("power of two"), std::string::npos);
    }
  }
  EXPECT_THROW(LossScaler({.grow_after = 0}), Error);
}

}  // namespace
}  // namespace lockstep::train
