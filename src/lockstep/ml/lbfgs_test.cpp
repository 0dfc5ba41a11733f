#include "lockstep/ml/lbfgs.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "lockstep/core/random.h"

namespace lockstep::ml {
namespace {

LbfgsOptions until(double tol, std::int64_t max_iter = 1000) {
  return {.max_iter = max_iter, .done = [tol](std::int64_t, double, const std::vector<double>& gradient) {
            return std::all_of(gradient.begin(), gradient.end(), [&](double g) { return std::abs(g) <= tol; });
          }};
}

double rosenbrock(const std::vector<double>& x, std::vector<double>& gradient) {
  double value = 0;
  std::fill(gradient.begin(), gradient.end(), 0.0);
  for (std::size_t i = 0; i + 1 < x.size(); ++i) {
    const double off = x[i + 1] - x[i] * x[i];
    value += 100 * off * off + (1 - x[i]) * (1 - x[i]);
    gradient[i] += -400 * off * x[i] - 2 * (1 - x[i]);
    gradient[i + 1] += 200 * off;
  }
  return value;
}

TEST(Lbfgs, FindsTheEndOfACurvedValley) {
  for (const std::size_t unknowns : {2, 5, 30}) {
    const auto found = lbfgs(rosenbrock, std::vector<double>(unknowns, -1.2), until(1e-10));
    EXPECT_TRUE(found.converged);
    EXPECT_LT(found.iterations, 400);
    // Along a valley of several unknowns there is another one; either is flat.
    std::vector<double> gradient(unknowns);
    rosenbrock(found.x, gradient);
    for (const double g : gradient) EXPECT_LE(std::abs(g), 1e-10);
    if (unknowns == 2) {
      EXPECT_NEAR(found.x[0], 1, 1e-9);
    }
  }
}

TEST(Lbfgs, OfASquareNeedsFewIterations) {
  constexpr std::size_t kUnknowns = 50;
  Random random(3, 0);
  std::vector<double> at, curvature;
  for (std::size_t i = 0; i < kUnknowns; ++i) {
    at.push_back(random.normal());
    curvature.push_back(1 + static_cast<double>(random.below(100)));
  }
  const auto found = lbfgs(
      [&](const std::vector<double>& x, std::vector<double>& gradient) {
        double value = 0;
        for (std::size_t i = 0; i < kUnknowns; ++i) {
          gradient[i] = curvature[i] * (x[i] - at[i]);
          value += 0.5 * gradient[i] * (x[i] - at[i]);
        }
        return value;
      },
      std::vector<double>(kUnknowns), until(1e-9));
  EXPECT_TRUE(found.converged);
  EXPECT_LT(found.iterations, 100);
  for (std::size_t i = 0; i < kUnknowns; ++i) EXPECT_NEAR(found.x[i], at[i], 1e-9);
}

TEST(Lbfgs, StaysWhereTheFunctionIsFinite) {
  // Beyond 2 there is nothing.
  const auto found = lbfgs(
      [](const std::vector<double>& x, std::vector<double>& gradient) {
        gradient[0] = -3 + 1 / (2 - x[0]);
        return -3 * x[0] - std::log(2 - x[0]);
      },
      {-50}, until(1e-9));
  EXPECT_TRUE(found.converged);
  EXPECT_NEAR(found.x[0], 2 - 1.0 / 3, 1e-8);
}

TEST(Lbfgs, EndsWhereRoundingHidesWhatIsLeft) {
  const auto found = lbfgs(
      [](const std::vector<double>& x, std::vector<double>& gradient) {
        gradient[0] = 2e-3 * (x[0] - 1);
        return 1e6 + 1e-3 * (x[0] - 1) * (x[0] - 1);
      },
      {3}, until(0));
  EXPECT_TRUE(found.converged);
  EXPECT_NEAR(found.x[0], 1, 1e-3);
}

TEST(Lbfgs, SaysThatItDidNotConverge) {
  const auto found = lbfgs(rosenbrock, std::vector<double>(30, -1.2), until(1e-10, 5));
  EXPECT_FALSE(found.converged);
  EXPECT_EQ(found.iterations, 5);
}

}  // namespace
}  // namespace lockstep::ml
