#include "lockstep/ml/kernels/moment_sums.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/core/random.h"
#include "lockstep/ml/kernels/testing.h"

namespace lockstep::ml {
namespace {

/// Halves, so that sums are exact in any order; thirds, so that they are not. Some values are not finite.
template <class T>
struct Case {
  std::int64_t rows, columns;
  bool weighted;
  std::vector<T> x;
  std::vector<double> weights, shift;

  Case(std::int64_t rows_, std::int64_t columns_, bool weighted_, double step)
      : rows(rows_), columns(columns_), weighted(weighted_) {
    Random random(static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns));
    const auto draw = [&] { return step * (static_cast<double>(random.below(9)) - 4); };
    constexpr T kOthers[] = {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity(),
                             -std::numeric_limits<T>::infinity()};
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      const std::uint64_t kind = random.below(20);
      x.push_back(kind < 3 ? kOthers[kind] : static_cast<T>(draw()));
    }
    for (std::int64_t i = 0; i < rows; ++i) weights.push_back(std::vector{0.0, 1.0, 4.0, 0.25}[random.below(4)]);
    for (std::int64_t i = 0; i < columns; ++i) shift.push_back(draw());
  }

  /// Count, weight, sum, squares, least and greatest, of all columns each.
  std::vector<double> sums() const {
    std::vector<double> all(static_cast<std::size_t>(6 * columns), -7);
    double* own = all.data();
    moment_sums(x.data(), weighted ? weights.data() : nullptr, rows, columns, shift.data(),
                {own, own + columns, own + 2 * columns, own + 3 * columns, own + 4 * columns, own + 5 * columns});
    return all;
  }

  std::vector<double> by_definition() const {
    std::vector<double> all(static_cast<std::size_t>(6 * columns));
    for (std::int64_t column = 0; column < columns; ++column) {
      const auto of = [&](std::int64_t what) -> double& {
        return all[static_cast<std::size_t>(what * columns + column)];
      };
      const double from = shift[static_cast<std::size_t>(column)];
      of(4) = of(5) = from;
      for (std::int64_t row = 0; row < rows; ++row) {
        const double value = x[static_cast<std::size_t>(row * columns + column)];
        const double weight = weighted ? weights[static_cast<std::size_t>(row)] : 1;
        if (!std::isfinite(value) || weight == 0) continue;
        of(0) += 1;
        of(1) += weight;
        of(2) += weight * (value - from);
        of(3) += weight * (value - from) * (value - from);
        of(4) = std::min(of(4), value);
        of(5) = std::max(of(5), value);
      }
    }
    return all;
  }
};

template <class T>
void expect_sums() {
  for (const std::int64_t columns : {1, 2, 3, 7, 8, 12, 20, 31, 64, 1001}) {
    for (const std::int64_t rows : {1, 7, 8, 300, 2500}) {
      for (const bool weighted : {false, true}) {
        const Case<T> data(rows, columns, weighted, 0.5);
        EXPECT_EQ(data.sums(), data.by_definition()) << columns << " columns, " << rows << " rows";
      }
    }
  }
}

TEST(MomentSums, AreOfDoubles) { expect_sums<double>(); }
TEST(MomentSums, AreOfFloats) { expect_sums<float>(); }

TEST(MomentSums, HaveTheSameBitsWithAnyVectors) {
  const Case<double> data(1000, 21, true, 1.0 / 3);
  testing::expect_same_bits_with_any_vectors([&] { return data.sums(); });
}

}  // namespace
}  // namespace lockstep::ml
