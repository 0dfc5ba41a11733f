#include "lockstep/ml/kernels/assign.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "lockstep/core/random.h"
#include "lockstep/ml/kernels/testing.h"

namespace lockstep::ml {
namespace {

/// Rows on a grid of halves, so that scores, distances and sums are exact in any order, and ties are frequent.
template <class T>
struct Case {
  std::int64_t rows, columns, count;
  std::vector<T> x;
  std::vector<double> centroids, weights;

  Case(std::int64_t rows_, std::int64_t columns_, std::int64_t count_, double step)
      : rows(rows_), columns(columns_), count(count_) {
    Random random(static_cast<std::uint64_t>(rows * 1000 + columns), static_cast<std::uint64_t>(count));
    const auto draw = [&] { return step > 0 ? step * static_cast<double>(random.below(9)) : random.normal(); };
    for (std::int64_t i = 0; i < rows * columns; ++i) x.push_back(static_cast<T>(draw()));
    for (std::int64_t i = 0; i < count * columns; ++i) centroids.push_back(draw());
    for (std::int64_t i = 0; i < rows; ++i) weights.push_back(static_cast<double>(random.below(4)) / 2);
  }

  double distance(std::int64_t row, std::int64_t centroid) const {
    double sum = 0;
    for (std::int64_t column = 0; column < columns; ++column) {
      const double way = x[row * columns + column] - centroids[centroid * columns + column];
      sum += way * way;
    }
    return sum;
  }
};

struct Result {
  std::vector<std::int32_t> labels;
  std::vector<double> sums, weights, distances;
  std::int64_t changed = 0;
};

template <class T>
Result run(const Case<T>& data, bool weighted) {
  Result result;
  result.labels.assign(static_cast<std::size_t>(data.rows), 0);
  result.weights.assign(static_cast<std::size_t>(data.count), 0);
  result.distances.assign(static_cast<std::size_t>(data.rows), 0);
  struct alignas(64) Line {
    double values[8];
  };
  std::vector<Line> sums(static_cast<std::size_t>(data.count * padded(data.columns) / 8));
  const CentroidColumns<T> centroids(data.centroids, data.count, data.columns);
  result.changed = assign(data.x.data(), data.rows, centroids, weighted ? data.weights.data() : nullptr,
                          result.labels.data(), ClusterSums{sums.front().values, result.weights.data()});
  result.sums.assign(sums.front().values, sums.front().values + sums.size() * 8);
  squared_distances(data.x.data(), data.rows, data.columns, data.centroids.data(), result.labels.data(),
                    result.distances.data());
  return result;
}

const std::pair<std::int64_t, std::int64_t> kShapes[] = {{1, 1},  {3, 7},    {20, 10}, {8, 8},
                                                         {5, 17}, {50, 100}, {64, 33}};

template <class T>
void expect_nearest() {
  for (const auto& [columns, count] : kShapes) {
    for (const std::int64_t rows : {1, 47, 48, 101}) {
      for (const bool weighted : {false, true}) {
        const Case<T> data(rows, columns, count, 0.5);
        const Result result = run(data, weighted);
        std::vector<double> sums(static_cast<std::size_t>(count * padded(columns))),
            weights(static_cast<std::size_t>(count));
        for (std::int64_t row = 0; row < rows; ++row) {
          std::int64_t nearest = 0;
          for (std::int64_t centroid = 1; centroid < count; ++centroid) {
            if (data.distance(row, centroid) < data.distance(row, nearest)) nearest = centroid;
          }
          const std::int32_t label = result.labels[static_cast<std::size_t>(row)];
          // The centroids' mean rounds; equally near ones may come in any order.
          ASSERT_NEAR(data.distance(row, label), data.distance(row, nearest), 1e-4) << columns << " " << count;
          ASSERT_EQ(result.distances[static_cast<std::size_t>(row)], data.distance(row, label));
          const double weight = weighted ? data.weights[static_cast<std::size_t>(row)] : 1;
          weights[static_cast<std::size_t>(label)] += weight;
          for (std::int64_t column = 0; column < columns; ++column) {
            sums[static_cast<std::size_t>(label * padded(columns) + column)] += weight * data.x[row * columns + column];
          }
        }
        EXPECT_EQ(result.sums, sums);
        EXPECT_EQ(result.weights, weights);
        EXPECT_EQ(result.changed,
                  std::count_if(result.labels.begin(), result.labels.end(), [](auto label) { return label != 0; }));
      }
    }
  }
}

TEST(Assign, FindsTheNearestInDoubles) { expect_nearest<double>(); }
TEST(Assign, FindsTheNearestInFloats) { expect_nearest<float>(); }

TEST(Assign, OfEqualCentroidsTakesTheFirst) {
  Case<double> data(100, 6, 21, 0);
  for (std::int64_t centroid = 1; centroid < data.count; ++centroid) {
    std::copy_n(data.centroids.begin(), 6, data.centroids.begin() + centroid * 6);
  }
  EXPECT_EQ(run(data, false).labels, std::vector<std::int32_t>(100, 0));
}

TEST(Assign, KeepsDigitsWhereTheMeanIsLarge) {
  Case<double> data(200, 5, 4, 0);
  const Result before = run(data, false);
  for (double& value : data.x) value += 1e6;
  for (double& value : data.centroids) value += 1e6;
  EXPECT_EQ(run(data, false).labels, before.labels);
}

TEST(Assign, SurvivesWhatIsNotFinite) {
  Case<float> data(50, 4, 9, 0);
  data.x[13] = std::numeric_limits<float>::quiet_NaN();
  data.x[77] = std::numeric_limits<float>::infinity();
  const Result result = run(data, true);
  for (const auto label : result.labels) EXPECT_TRUE(label >= 0 && label < 9) << label;
}

/// Every instruction set with fused multiply-add that this processor has.
template <class T>
void expect_same_bits() {
  const Case<T> data(1000, 23, 37, 0);
  testing::expect_same_bits_with_any_vectors([&] {
    const auto [labels, sums, weights, distances, changed] = run(data, true);
    std::vector<double> all(labels.begin(), labels.end());
    for (const auto& some : {sums, weights, distances}) all.insert(all.end(), some.begin(), some.end());
    all.push_back(static_cast<double>(changed));
    return all;
  });
}

TEST(Assign, HasTheSameBitsWithAnyVectorsInDoubles) { expect_same_bits<double>(); }
TEST(Assign, HasTheSameBitsWithAnyVectorsInFloats) { expect_same_bits<float>(); }

}  // namespace
}  // namespace lockstep::ml
