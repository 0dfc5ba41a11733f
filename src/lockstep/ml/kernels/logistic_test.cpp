#include "lockstep/ml/kernels/logistic.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "lockstep/core/random.h"
#include "lockstep/ml/kernels/testing.h"

namespace lockstep::ml {
namespace {

template <class T>
struct Case {
  std::int64_t rows, columns, outputs;
  std::vector<T> x;
  std::vector<double> coef, intercept, weights;
  std::vector<std::int32_t> classes;

  Case(std::int64_t rows_, std::int64_t columns_, std::int64_t outputs_, double size = 1)
      : rows(rows_), columns(columns_), outputs(outputs_) {
    Random random(static_cast<std::uint64_t>(rows * 1000 + columns), static_cast<std::uint64_t>(outputs));
    for (std::int64_t i = 0; i < rows * columns; ++i) x.push_back(static_cast<T>(random.normal()));
    coef.assign(static_cast<std::size_t>(outputs * padded(columns)), 0);
    for (std::int64_t output = 0; output < outputs; ++output) {
      intercept.push_back(random.normal());
      for (std::int64_t column = 0; column < columns; ++column) {
        coef[static_cast<std::size_t>(output * padded(columns) + column)] = size * random.normal();
      }
    }
    for (std::int64_t row = 0; row < rows; ++row) {
      weights.push_back(static_cast<double>(random.below(4)) / 2);
      classes.push_back(
          static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(std::max<std::int64_t>(outputs, 2)))));
    }
  }
};

struct Result {
  double loss = 0;
  std::vector<double> gradient, probabilities;
};

template <class T>
Result run(const Case<T>& data, bool weighted) {
  Result result;
  LogisticScratch scratch, gradient;
  gradient.lines.resize(static_cast<std::size_t>(data.outputs * padded(data.columns + 1) / 8));
  const std::int64_t stride = padded(data.rows);
  std::vector<double> probabilities(static_cast<std::size_t>(data.outputs * stride));
  add_logistic(data.x.data(), data.rows, {data.columns, data.outputs, data.coef.data(), data.intercept.data()},
               data.classes.data(), weighted ? data.weights.data() : nullptr,
               {&result.loss, gradient.lines.front().values}, probabilities.data(), scratch);
  const double* sums = gradient.lines.front().values;
  for (std::int64_t output = 0; output < data.outputs; ++output) {
    const double* own = sums + output * padded(data.columns + 1);
    result.gradient.insert(result.gradient.end(), own, own + data.columns + 1);
    const auto first = probabilities.begin() + output * stride;
    result.probabilities.insert(result.probabilities.end(), first, first + data.rows);
  }
  return result;
}

/// In long doubles, one row after the other.
template <class T>
Result by_definition(const Case<T>& data, bool weighted) {
  using Real = long double;
  const auto classes = std::max<std::int64_t>(data.outputs, 2);
  Real loss = 0;
  std::vector<Real> gradient(static_cast<std::size_t>(data.outputs * (data.columns + 1)));
  Result result;
  result.probabilities.resize(static_cast<std::size_t>(data.outputs * data.rows));
  for (std::int64_t row = 0; row < data.rows; ++row) {
    const T* x = data.x.data() + row * data.columns;
    std::vector<Real> margins;
    if (data.outputs == 1) margins.push_back(0);  // of class 0
    for (std::int64_t output = 0; output < data.outputs; ++output) {
      Real margin = data.intercept[static_cast<std::size_t>(output)];
      const double* coef = data.coef.data() + output * padded(data.columns);
      for (std::int64_t column = 0; column < data.columns; ++column) margin += Real{coef[column]} * Real{x[column]};
      margins.push_back(margin);
    }
    const Real largest = *std::max_element(margins.begin(), margins.end());
    Real sum = 0;
    for (const Real margin : margins) sum += std::exp(margin - largest);
    const auto own = static_cast<std::size_t>(data.classes[static_cast<std::size_t>(row)]);
    const Real weight = weighted ? data.weights[static_cast<std::size_t>(row)] : 1;
    loss += weight * (std::log(sum) + largest - margins[own]);
    for (std::int64_t output = 0; output < data.outputs; ++output) {
      const auto number = static_cast<std::size_t>(output + classes - data.outputs);
      const Real probability = std::exp(margins[number] - largest) / sum;
      const Real residual = weight * (probability - (own == number ? 1 : 0));
      result.probabilities[static_cast<std::size_t>(output * data.rows + row)] = static_cast<double>(probability);
      Real* of_output = gradient.data() + output * (data.columns + 1);
      for (std::int64_t column = 0; column < data.columns; ++column) of_output[column] += residual * Real{x[column]};
      of_output[data.columns] += residual;
    }
  }
  result.loss = static_cast<double>(loss);
  result.gradient.assign(gradient.begin(), gradient.end());
  return result;
}

const std::pair<std::int64_t, std::int64_t> kShapes[] = {{1, 1}, {7, 1},  {8, 1},   {20, 1}, {33, 1}, {65, 1},
                                                         {3, 3}, {20, 4}, {16, 10}, {9, 6},  {24, 5}, {100, 1}};

template <class T>
void expect_the_loss() {
  for (const auto& [columns, outputs] : kShapes) {
    for (const std::int64_t rows : {1, 3, 127, 128, 301}) {
      for (const bool weighted : {false, true}) {
        const Case<T> data(rows, columns, outputs);
        const Result found = run(data, weighted), expected = by_definition(data, weighted);
        EXPECT_NEAR(found.loss, expected.loss, 1e-13 * (1 + expected.loss)) << columns << " " << outputs << " " << rows;
        ASSERT_EQ(found.gradient.size(), expected.gradient.size());
        for (std::size_t i = 0; i < found.gradient.size(); ++i) {
          EXPECT_NEAR(found.gradient[i], expected.gradient[i], 1e-13 * static_cast<double>(rows))
              << columns << " " << i;
        }
        for (std::size_t i = 0; i < found.probabilities.size(); ++i) {
          EXPECT_NEAR(found.probabilities[i], expected.probabilities[i], 1e-13) << columns << " " << i;
        }
      }
    }
  }
}

TEST(Logistic, IsTheLossInDoubles) { expect_the_loss<double>(); }
TEST(Logistic, IsTheLossInFloats) { expect_the_loss<float>(); }

TEST(Logistic, OfLargeMarginsIsFinite) {
  for (const std::int64_t outputs : {1, 3}) {
    const Case<double> data(200, 5, outputs, 1e4);
    const Result found = run(data, false), expected = by_definition(data, false);
    EXPECT_NEAR(found.loss / expected.loss, 1, 1e-13);
    for (const double value : found.gradient) EXPECT_TRUE(std::isfinite(value));
    for (const double value : found.probabilities) EXPECT_TRUE(value >= 0 && value <= 1) << value;
  }
}

TEST(Logistic, ShowsWhatIsNotFinite) {
  for (const std::int64_t outputs : {1, 3}) {
    for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      Case<double> data(200, 5, outputs, 0);
      data.x[777] = bad;
      EXPECT_TRUE(std::isnan(run(data, false).loss));
    }
  }
}

/// Every instruction set with fused multiply-add that this processor has.
template <class T>
void expect_same_bits() {
  for (const auto& [columns, outputs] : kShapes) {
    const Case<T> data(1001, columns, outputs);
    SCOPED_TRACE(::testing::Message() << columns << " columns, " << outputs << " outputs");
    testing::expect_same_bits_with_any_vectors([&] {
      const auto [loss, gradient, probabilities] = run(data, true);
      std::vector<double> all{loss};
      for (const auto& some : {gradient, probabilities}) all.insert(all.end(), some.begin(), some.end());
      return all;
    });
  }
}

TEST(Logistic, HasTheSameBitsWithAnyVectorsInDoubles) { expect_same_bits<double>(); }
TEST(Logistic, HasTheSameBitsWithAnyVectorsInFloats) { expect_same_bits<float>(); }

}  // namespace
}  // namespace lockstep::ml
