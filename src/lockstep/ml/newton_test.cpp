#include "lockstep/ml/newton.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace lockstep::ml {
namespace {

NewtonOptions until(double tol, double damping = 0, std::int64_t max_iter = 100) {
  return {.max_iter = max_iter,
          .damping = damping,
          .done = [tol](std::int64_t, double, const std::vector<double>& gradient) {
            return std::all_of(gradient.begin(), gradient.end(), [&](double g) { return std::abs(g) <= tol; });
          }};
}

/// log(cosh(x - 1)) of each unknown, of unlike scales: a whole step from afar goes much too far.
Curve far_off(const std::vector<double>& x) {
  Curve curve{
      .gradient = std::vector<double>(x.size()),
      .hessian = at::zeros({static_cast<std::int64_t>(x.size()), static_cast<std::int64_t>(x.size())}, at::kDouble)};
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double scale = std::pow(1000, static_cast<double>(i)), off = scale * x[i] - 1;
    curve.value += std::abs(off) + std::log1p(std::exp(-2 * std::abs(off))) - std::log(2);
    curve.gradient[i] = scale * std::tanh(off);
    const auto place = static_cast<std::int64_t>(i);
    curve.hessian[place][place] = scale * scale / std::cosh(off) / std::cosh(off);
  }
  return curve;
}

TEST(Newton, ComesFromAfarAndEndsExactly) {
  const auto found = newton(far_off, {-4, 0.005}, until(1e-12));
  EXPECT_TRUE(found.converged);
  EXPECT_LT(found.iterations, 30);
  EXPECT_NEAR(found.x[0], 1, 1e-12);
  EXPECT_NEAR(found.x[1], 1e-3, 1e-15);
}

TEST(Newton, BearsADirectionThatChangesNothing) {
  // Of x + y alone.
  const auto found = newton(
      [](const std::vector<double>& x) {
        const double off = x[0] + x[1] - 3;
        return Curve{.value = std::cosh(off),
                     .gradient = {std::sinh(off), std::sinh(off)},
                     .hessian = at::full({2, 2}, std::cosh(off), at::kDouble)};
      },
      {0, 0}, until(1e-12, 1e-10));
  EXPECT_TRUE(found.converged);
  EXPECT_NEAR(found.x[0] + found.x[1], 3, 1e-11);
  EXPECT_NEAR(found.x[0], found.x[1], 1e-4);
}

TEST(Newton, EndsWhereRoundingHidesWhatIsLeft) {
  const auto found = newton(
      [](const std::vector<double>& x) {
        return Curve{.value = 1e6 + std::cosh(x[0]),
                     .gradient = {std::sinh(x[0]) + 1e-13},
                     .hessian = at::full({1, 1}, std::cosh(x[0]), at::kDouble)};
      },
      {1}, until(0));
  EXPECT_TRUE(found.converged);
  EXPECT_NEAR(found.x[0], 0, 1e-6);
}

TEST(Newton, SaysThatItDidNotConverge) {
  const auto found = newton(far_off, {-4, 0.005}, until(1e-12, 0, 1));
  EXPECT_FALSE(found.converged);
  EXPECT_EQ(found.iterations, 1);
}

}  // namespace
}  // namespace lockstep::ml
