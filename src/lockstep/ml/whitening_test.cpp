#include "lockstep/ml/whitening.h"

#include <gtest/gtest.h>

#include "lockstep/core/testing.h"
#include "lockstep/ml/testing.h"

namespace lockstep::ml {
namespace {

using testing::blobs;
using testing::with_table;

TEST(Whitening, MakesTheCurvatureOne) {
  const std::int64_t columns = 4, width = 5;
  auto x = blobs(6000, columns, 2, 1, 7);
  x.select(1, 1).mul_(1000);
  const auto centred = x - x.mean(0);
  const auto curvature = 0.25 *
                         at::cat({centred, at::ones({6000, 1}, at::kDouble)}, 1)
                             .t()
                             .matmul(at::cat({centred, at::ones({6000, 1}, at::kDouble)}, 1)) /
                         6000;
  with_table(2, {x}, [&](const Table& table) {
    const Whitening whitening(table, true, 0.25, 0, 1);
    EXPECT_TRUE(at::allclose(whitening.mean(), x.mean(0), 1e-12));
    // Along each whitened unknown the unknowns move so that ½ · step · curvature · step is ½.
    for (std::int64_t i = 0; i < width; ++i) {
      std::vector<double> one(static_cast<std::size_t>(width));
      one[static_cast<std::size_t>(i)] = 1;
      const auto step = at::tensor(whitening.unknowns(one), at::kDouble);
      EXPECT_NEAR(step.dot(curvature.mv(step)).item<double>(), 1, 1e-8);
    }
  });
}

TEST(Whitening, GoesBackAndForth) {
  for (const std::int64_t columns : {3, 1100}) {
    auto x = blobs(200, columns, 2);
    x.select(1, 2).fill_(0);
    for (const bool fit_intercept : {true, false}) {
      with_table(1, {x}, [&](const Table& table) {
        const Whitening whitening(table, fit_intercept, 0.5, columns > 3 ? 0 : 0.01, 1);
        const auto values = blobs(2, columns + (fit_intercept ? 1 : 0), 1, 5).view({-1});
        const std::vector<double> some(values.const_data_ptr<double>(),
                                       values.const_data_ptr<double>() + values.numel());
        const auto near = [&](const std::vector<double>& found) {
          return at::allclose(at::tensor(found, at::kDouble), values, 1e-9, 1e-9);
        };
        EXPECT_TRUE(near(whitening.unknowns(whitening.whitened(some))));
        EXPECT_TRUE(near(whitening.gradient(whitening.whitened_gradient(some))));
        // A step times a gradient is the same in both.
        const auto step = at::tensor(whitening.whitened(some), at::kDouble);
        const auto slope = at::tensor(whitening.whitened_gradient(some), at::kDouble);
        EXPECT_NEAR((step.dot(slope) / values.dot(values)).item<double>(), 1, 1e-9);
      });
    }
  }
}

TEST(Whitening, RefusesProductsThatAreTooLarge) {
  // Of the values themselves: about their mean they are small.
  const auto x = blobs(200, 3, 2), wide = blobs(200, 1100, 2);
  for (const auto& columns : {x + 1e200, wide * 1e200}) {
    with_table(2, {columns}, [](const Table& table) {
      EXPECT_EQ(test::message_of([&] { Whitening(table, false, 0.25, 0, 1); }, Fault::Data),
                "products of the columns are too large for float64; scale the columns");
    });
  }
}

}  // namespace
}  // namespace lockstep::ml
