#include "lockstep/ml/kernels/add_gram.h"

#include <vector>

#include <gtest/gtest.h>

#include "lockstep/core/random.h"
#include "lockstep/ml/kernels/testing.h"

namespace lockstep::ml {
namespace {

/// Halves, so that sums are exact in any order; thirds, so that they are not.
template <class T>
struct Case {
  std::int64_t rows;
  GramShape shape;
  bool weighted;
  std::vector<T> x;
  std::vector<double> targets, weights, shift;

  Case(std::int64_t rows_, GramShape shape_, bool weighted_, double step)
      : rows(rows_), shape(shape_), weighted(weighted_) {
    Random random(static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(shape.width()));
    const auto draw = [&] { return step * (static_cast<double>(random.below(9)) - 4); };
    for (std::int64_t i = 0; i < rows * shape.columns; ++i) x.push_back(static_cast<T>(draw()));
    for (std::int64_t i = 0; i < rows * shape.targets; ++i) targets.push_back(draw());
    for (std::int64_t i = 0; i < rows; ++i) weights.push_back(std::vector{0.0, 1.0, 4.0, 0.25}[random.below(4)]);
    for (std::int64_t i = 0; i < shape.columns + shape.targets; ++i) shift.push_back(draw());
  }

  double z(std::int64_t row, std::int64_t place) const {
    if (place == shape.width() - 1) return 1;
    if (place < shape.columns) return x[row * shape.columns + place] - shift[place];
    return targets[row * shape.targets + place - shape.columns] - shift[place];
  }

  std::vector<double> sums(bool small_shift) const {
    GramScratch scratch, memory;
    double* all = memory.take(shape.size());
    std::fill_n(all, shape.size(), 1.0);  // they are added to
    add_gram(x.data(), targets.data(), weighted ? weights.data() : nullptr, rows, shape, {shift.data(), small_shift},
             all, scratch);
    std::vector<double> lower;
    for (std::int64_t i = 0; i < shape.width(); ++i) {
      for (std::int64_t j = 0; j <= i; ++j) lower.push_back(all[i * shape.stride() + j]);
    }
    return lower;
  }
};

template <class T>
void expect_products() {
  for (const GramShape shape : {GramShape{1, 0}, {3, 1}, {7, 0}, {8, 2}, {20, 1}, {31, 3}, {64, 0}}) {
    for (const std::int64_t rows : {1, 63, 64, 300}) {
      for (const bool weighted : {false, true}) {
        const Case<T> data(rows, shape, weighted, 0.5);
        std::vector<double> expected;
        for (std::int64_t i = 0; i < shape.width(); ++i) {
          for (std::int64_t j = 0; j <= i; ++j) {
            double sum = 1;
            for (std::int64_t row = 0; row < rows; ++row) {
              sum += (weighted ? data.weights[static_cast<std::size_t>(row)] : 1) * data.z(row, i) * data.z(row, j);
            }
            expected.push_back(sum);
          }
        }
        for (const bool small_shift : {false, true}) {
          EXPECT_EQ(data.sums(small_shift), expected)
              << shape.columns << " columns, " << shape.targets << " targets, " << rows << " rows";
        }
      }
    }
  }
}

TEST(AddGram, MultipliesDoubles) { expect_products<double>(); }
TEST(AddGram, MultipliesFloats) { expect_products<float>(); }

TEST(AddGram, HasTheSameBitsWithAnyVectors) {
  for (const bool weighted : {false, true}) {
    for (const std::int64_t targets : {0, 1, 2}) {
      const Case<double> data(1000, {21, targets}, weighted, 1.0 / 3);
      testing::expect_same_bits_with_any_vectors([&] { return data.sums(/*small_shift=*/true); });
      testing::expect_same_bits_with_any_vectors([&] { return data.sums(/*small_shift=*/false); });
    }
  }
}

}  // namespace
}  // namespace lockstep::ml
