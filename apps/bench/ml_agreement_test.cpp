#include "bench/ml_agreement.h"

#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "lockstep/core/testing.h"

namespace lockstep::apps {
namespace {

const Participant kLockstep{kOurs, ""};
const Participant kLockstepRanks{kOurs, "ranks"};
const Participant kPeer{"sklearn", ""};

bool agree(const std::string& name, const Participant& participant, double value, std::int64_t rows = 100) {
  MlAgreement agreement;
  agreement.check(ml_case(name), 100, kLockstep, {{"inertia", 1000}});
  try {
    agreement.check(ml_case(name), rows, participant, {{"inertia", value}});
  } catch (const Error&) {
    return false;
  }
  return true;
}

TEST(MlAgreement, LetsPeersDifferByRounding) {
  EXPECT_TRUE(agree("kmeans", kPeer, 1000.0005));
  EXPECT_FALSE(agree("kmeans", kPeer, 1000.005));
  EXPECT_TRUE(agree("kmeans_f32", kPeer, 1000.5));
  EXPECT_FALSE(agree("kmeans_f32", kPeer, 1005));
  EXPECT_FALSE(agree("kmeans", kPeer, std::nan("")));
}

TEST(MlAgreement, HoldsOursToEveryBit) {
  EXPECT_TRUE(agree("kmeans", kLockstepRanks, 1000));
  EXPECT_FALSE(agree("kmeans", kLockstepRanks, std::nextafter(1000, 2000)));
}

TEST(MlAgreement, ComparesOnlyTheSameRows) { EXPECT_TRUE(agree("kmeans", kPeer, 2000, 200)); }

TEST(MlAgreement, SaysWhoFoundWhat) {
  MlAgreement agreement;
  agreement.check(ml_case("linreg"), 100, kLockstep, {{"coef", 20}, {"intercept", 0.5}});
  const auto message = [&](const std::map<std::string, double>& values) {
    return test::message_of([&] { agreement.check(ml_case("linreg"), 100, kPeer, values); }, Fault::Internal);
  };
  EXPECT_EQ(message({{"coef", 20}, {"intercept", 0.25}}),
            "linreg of 100 rows: lockstep has intercept 0.5, sklearn has 0.25; their times do not compare");
  EXPECT_EQ(message({{"coef", 20}}),
            "linreg of 100 rows: lockstep has intercept 0.5, sklearn has nan; their times do not compare");
}

}  // namespace
}  // namespace lockstep::apps
