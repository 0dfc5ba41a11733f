#include "lockstep/ml/nearest_rows.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "lockstep/ml/squared_distance.h"
#include "lockstep/ml/testing.h"

namespace lockstep::ml {
namespace {

using testing::blobs;

template <class T>
std::vector<Neighbor> by_definition(const at::Tensor& x, const at::Tensor& queries, std::int64_t k) {
  const std::int64_t columns = x.size(1);
  std::vector<Neighbor> result;
  for (std::int64_t query = 0; query < queries.size(0); ++query) {
    std::vector<Neighbor> all;
    for (std::int64_t row = 0; row < x.size(0); ++row) {
      all.push_back({squared_distance(x.const_data_ptr<T>() + row * columns,
                                      queries.const_data_ptr<T>() + query * columns, columns),
                     row});
    }
    std::sort(all.begin(), all.end());
    result.insert(result.end(), all.begin(), all.begin() + k);
  }
  return result;
}

void expect_equal(const std::vector<Neighbor>& found, const std::vector<Neighbor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].row, expected[i].row) << i;
    ASSERT_EQ(found[i].squared, expected[i].squared) << i;
  }
}

TEST(NearestRows, AreThoseOfTheExactDistances) {
  for (const auto& [rows, columns, queries] : {std::tuple{9000, 3, 70}, {3000, 40, 300}, {7, 1, 5}}) {
    for (const double mean : {0.0, 1e5}) {
      const auto x = blobs(rows, columns, 5, 1, mean), q = blobs(queries, columns, 5, 2, mean);
      const auto small = x.to(at::kFloat), few = q.to(at::kFloat);
      const auto expected = by_definition<double>(x, q, 5), expected_of_small = by_definition<float>(small, few, 1);
      for (const int threads : {1, 2, 7}) {
        expect_equal(nearest_rows(RowBlocks::of(x), q, 5, threads), expected);
        expect_equal(nearest_rows(RowBlocks::of(small), few, 1, threads), expected_of_small);
      }
    }
  }
}

TEST(NearestRows, OfEquallyFarOnesAreTheFirst) {
  // On a grid of few values nearly all distances are equal to many others.
  const auto x = blobs(12'000, 3, 2).round(), q = blobs(40, 3, 2, 3).round();
  const auto expected = by_definition<double>(x, q, 20);
  for (const int threads : {1, 3, 64}) {
    expect_equal(nearest_rows(RowBlocks::of(x), q, 20, threads), expected);
  }
}

TEST(NearestRows, ComeFromTheFarthestToTheNearestToo) {
  const auto x = at::arange(20'000, 0, -1, at::kDouble).view({-1, 1});
  const auto found = nearest_rows(RowBlocks::of(x), at::zeros({3, 1}, at::kDouble), 2, 1);
  EXPECT_EQ(found[0].row, 19'999);
  EXPECT_EQ(found[5].row, 19'998);
}

TEST(NearestRows, MayBeFewerThanAskedFor) {
  const auto found = nearest_rows(RowBlocks::of(blobs(2, 3, 1)), blobs(4, 3, 1), 3, 2);
  EXPECT_LT(found[1].row, 2);
  EXPECT_EQ(found[2].row, Neighbor().row);
  EXPECT_TRUE(nearest_rows(RowBlocks::of(blobs(2, 3, 1)), at::empty({0, 3}, at::kDouble), 3, 2).empty());
}

}  // namespace
}  // namespace lockstep::ml
