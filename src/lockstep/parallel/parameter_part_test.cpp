#include "lockstep/parallel/parameter_part.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "lockstep/core/error.h"
#include "lockstep/core/testing.h"
#include "lockstep/parallel/initial_values.h"

namespace lockstep::parallel {
namespace {

at::Tensor taken(const at::Tensor& whole, const ParameterPart& part) {
  at::Tensor result = at::empty(part.shape(), whole.options());
  for (const auto& run : part.runs()) {
    result.view(-1).narrow(0, run.of_part, run.count).copy_(whole.view(-1).narrow(0, run.of_whole, run.count));
  }
  return result;
}

TEST(ParameterPart, IsASliceOfEveryBand) {
  const at::Tensor whole = at::arange(12 * 5 * 2).view({12, 5, 2});
  for (const int count : {2, 3, 4}) {
    for (int index = 0; index < count; ++index) {
      EXPECT_TRUE(at::equal(taken(whole, ParameterPart({12, 5, 2}, {.dim = 1, .index = index, .count = count})),
                            whole.slice(1, 5 * index / count, 5 * (index + 1) / count)));
      const ParameterPart banded({12, 5, 2}, {.dim = 0, .bands = 3, .index = index, .count = count});
      std::vector<at::Tensor> bands;
      for (int band = 0; band < 3; ++band)
        bands.push_back(whole.slice(0, 4 * band + 4 * index / count, 4 * band + 4 * (index + 1) / count));
      EXPECT_TRUE(at::equal(taken(whole, banded), at::cat(bands)));
    }
  }
  EXPECT_TRUE(at::equal(taken(whole, ParameterPart({12, 5, 2})), whole));
}

TEST(ParameterPart, IsCutAgainByWindows) {
  const at::Tensor whole = at::arange(12 * 5 * 2).view({12, 5, 2});
  for (const ParameterPart& part :
       {ParameterPart({12, 5, 2}), ParameterPart({12, 5, 2}, {.dim = 0, .bands = 3, .index = 1, .count = 2}),
        ParameterPart({12, 5, 2}, {.dim = 1, .index = 0, .count = 3})}) {
    const at::Tensor mine = taken(whole, part).flatten();
    for (const Window window : {Window{0, 0}, Window{0, 5}, Window{3, 11}, Window{0, mine.numel()}}) {
      const ParameterPart within = part.within(window);
      EXPECT_FALSE(within.is_whole());
      EXPECT_TRUE(at::equal(taken(whole, within), mine.narrow(0, window.first, window.count)));
      EXPECT_TRUE(at::equal(taken(whole, within.within({window.count / 2, window.count / 3})),
                            mine.narrow(0, window.first + window.count / 2, window.count / 3)));
    }
    const ParameterPart both = part.within_all({{1, 4}, {5, 0}, {9, 3}});
    EXPECT_TRUE(at::equal(taken(whole, both), at::cat({mine.narrow(0, 1, 4), mine.narrow(0, 9, 3)})));
    EXPECT_THROW((void)part.within({1, mine.numel()}), Error);
    EXPECT_THROW((void)part.within_all({{3, 4}, {6, 1}}), Error);
    EXPECT_THROW((void)both.within({0, 2}), Error);
  }
}

TEST(ParameterPart, RefusesToLeaveARankWithNothing) {
  EXPECT_EQ(
      test::message_of([] { ParameterPart({6, 2}, {.dim = 0, .bands = 3, .index = 0, .count = 4}); }, Fault::Usage),
      "dim 0 of [6, 2] is 3 x 2 elements, which cannot be split over 4 ranks: set parallel.tensor to at most 2");
}

TEST(InitialValues, OfAPartAreThoseOfTheWhole) {
  for (const auto& values : {InitialValues::uniform(0.5), InitialValues::normal(2), InitialValues::constant(3)}) {
    const ParameterPart all({40, 30});
    const at::Tensor whole = at::empty({40, 30});
    fill_(whole, all, values, 7, "layer.weight");
    for (int index = 0; index < 3; ++index) {
      const ParameterPart part({40, 30}, {.dim = 1, .index = index, .count = 3});
      const at::Tensor mine = at::empty(part.shape());
      fill_(mine, part, values, 7, "layer.weight");
      EXPECT_TRUE(at::equal(mine, taken(whole, part)));
    }
    const at::Tensor other = at::empty({40, 30});
    fill_(other, all, values, 7, "other.weight");
    EXPECT_EQ(at::equal(other, whole), values.kind == InitialValues::Kind::Constant);
  }
  const at::Tensor many = at::empty({200'000});
  fill_(many, ParameterPart({200'000}), InitialValues::normal(2), 1, "x");
  EXPECT_NEAR(many.mean().item<double>(), 0, 0.02);
  EXPECT_NEAR(many.std().item<double>(), 2, 0.02);
  fill_(many, ParameterPart({200'000}), InitialValues::uniform(0.5), 1, "x");
  EXPECT_NEAR(many.std().item<double>(), 0.5 / std::sqrt(3.0), 0.002);
  EXPECT_LE(many.abs().max().item<double>(), 0.5);
}

}  // namespace
}  // namespace lockstep::parallel
