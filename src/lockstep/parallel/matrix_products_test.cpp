#include "lockstep/parallel/matrix_products.h"

#include <string>
#include <tuple>

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep::parallel {
namespace {

/// Each number may be off by what sums of so many products in other orders are.
void expect_close(const at::Tensor& actual, const at::Tensor& wanted) {
  ASSERT_EQ(actual.sizes(), wanted.sizes());
  EXPECT_EQ(actual.scalar_type(), wanted.scalar_type());
  EXPECT_LT((actual - wanted).norm().item<double>(), 2e-6 * wanted.norm().item<double>() + 1e-30);
}

using Shape = std::tuple<int, int, int>;  // rows, inner, columns
class MatrixProducts : public ::testing::TestWithParam<Shape> {
 protected:
  MatrixProducts() { torch::manual_seed(1); }
};

std::string name_of(const ::testing::TestParamInfo<Shape>& test) {
  const auto& [rows, inner, columns] = test.param;
  return std::to_string(rows) + "x" + std::to_string(inner) + "x" + std::to_string(columns);
}
// Below and above what is worth asking another library for.
INSTANTIATE_TEST_SUITE_P(Shapes, MatrixProducts,
                         ::testing::Values(Shape{0, 3, 2}, Shape{1, 1, 1}, Shape{7, 5, 3}, Shape{256, 128, 200},
                                           Shape{1000, 65, 129}, Shape{4, 4096, 1031}, Shape{1, 300, 300}),
                         name_of);

TEST_P(MatrixProducts, AreThoseOfTorch) {
  const auto& [rows, inner, columns] = GetParam();
  for (const auto type : {at::kFloat, at::kDouble}) {
    for (const bool turned : {false, true}) {
      const at::Tensor left = turned ? torch::randn({inner, rows}, type).t() : torch::randn({rows, inner}, type);
      const at::Tensor right = turned ? torch::randn({columns, inner}, type).t() : torch::randn({inner, columns}, type);
      const at::Tensor wanted = left.mm(right);
      expect_close(product(left, right), wanted);
      const at::Tensor target = torch::full({rows, columns}, 3, type);
      product_out(target, left, right);
      expect_close(target, wanted);
      add_product(target, left, right);
      expect_close(target, 2 * wanted);
    }
  }
}

TEST_P(MatrixProducts, HaveTheGradientsOfTorch) {
  const auto& [rows, inner, columns] = GetParam();
  const auto leaf = [](at::IntArrayRef sizes) { return torch::randn(sizes).requires_grad_(); };
  const at::Tensor input = leaf({2, rows, inner}), weight = leaf({columns, inner}), bias = leaf({columns});
  for (const bool biased : {false, true}) {
    const auto maybe = biased ? std::optional(bias) : std::nullopt;
    const at::Tensor actual = linear_map(input, weight, maybe), wanted = at::linear(input, weight, maybe);
    expect_close(actual, wanted);
    const at::Tensor slopes = torch::randn(wanted.sizes());
    std::vector<at::Tensor> of{input, weight};
    if (biased) of.push_back(bias);
    const auto gradients = torch::autograd::grad({actual}, of, {slopes});
    const auto of_torch = torch::autograd::grad({wanted}, of, {slopes});
    for (std::size_t i = 0; i < of.size(); ++i) expect_close(gradients[i], of_torch[i]);
  }
}

TEST(MatrixProductsAlone, ComputeNoGradientThatNobodyAsksFor) {
  const at::Tensor input = torch::randn({512, 128}), weight = torch::randn({128, 128}).requires_grad_();
  EXPECT_TRUE(linear_map(input, weight).requires_grad());
  const torch::NoGradGuard no_gradients;
  EXPECT_FALSE(linear_map(input, weight).requires_grad());
}

}  // namespace
}  // namespace lockstep::parallel
