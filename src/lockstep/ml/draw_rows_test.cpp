#include "lockstep/ml/draw_rows.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "lockstep/core/testing.h"
#include "lockstep/ml/testing.h"

namespace lockstep::ml {
namespace {

using testing::with_table;

/// The rows of a table in order, on every rank.
at::Tensor all_rows(const Table& table) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(table.rows()));
  std::iota(numbers.begin(), numbers.end(), std::int64_t{0});
  return rows_at(table, numbers);
}

TEST(DrawDifferent, DrawsEachNumberAsOften) {
  std::vector<int> seen(10);
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    Random random(seed, 0);
    const auto drawn = draw_different(random, 10, 4);
    EXPECT_EQ(std::set<std::int64_t>(drawn.begin(), drawn.end()).size(), 4U);
    for (const auto number : drawn) ++seen[static_cast<std::size_t>(number)];
  }
  for (const int count : seen) EXPECT_NEAR(count, 1200, 150);
  Random random(1, 0);
  auto all = draw_different(random, 5, 5);
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
}

TEST(RowDraw, DrawsTheSameRowsOnAnyNumberOfRanks) {
  const auto x = at::arange(40'000, at::kDouble).view({-1, 2});
  const auto weights = at::arange(20'000, at::kDouble).remainder(5);
  for (const bool by_weight : {false, true}) {
    at::Tensor first;
    for (const int ranks : {1, 2, 3, 4, 8}) {
      with_table(ranks, {x, {}, by_weight ? weights : at::Tensor()}, [&](const Table& table) {
        const auto drawn = RowDraw(table, 2)({7, 3}, 500);
        EXPECT_EQ(drawn->rows(), 500);
        EXPECT_FALSE(drawn->weighted());
        const auto rows = all_rows(*drawn);
        if (table.group().rank() == 0 && !first.defined()) first = rows;
        EXPECT_TRUE(at::equal(rows, first)) << ranks;
      });
    }
    EXPECT_TRUE(at::equal(first, std::get<0>(first.sort(0)))) << "in order";
  }
}

TEST(RowDraw, DrawsRowsByTheirWeight) {
  const auto x = at::arange(9000, at::kDouble).view({-1, 1});
  auto weights = at::zeros({9000}, at::kDouble);
  weights[17] = 1;
  weights[8500] = 3;  // in another block
  with_table(3, {x, {}, weights}, [&](const Table& table) {
    const auto rows = all_rows(*RowDraw(table, 1)({1, 0}, 10'000));
    EXPECT_NEAR((rows == 17).sum().item<double>(), 2500, 150);
    EXPECT_NEAR((rows == 8500).sum().item<double>(), 7500, 150);
  });
  with_table(2, {x, {}, at::zeros({9000}, at::kDouble)}, [](const Table& table) {
    EXPECT_EQ(test::message_of([&] { RowDraw(table, 1); }, Fault::Data),
              "the weights of all rows are 0; leave --weights out, or name another field");
  });
}

TEST(DrawDifferent, ByWeightIsTheSameOnAnyRanksAndFollowsWeights) {
  constexpr std::int64_t kRows = 20'000;
  const at::Tensor x = at::arange(kRows, at::kDouble).unsqueeze(1);
  // Of the first half a row weighs three times as much as of the second; every fourth weighs nothing.
  at::Tensor weights = at::ones({kRows}, at::kDouble);
  weights.slice(0, 0, kRows / 2).fill_(3);
  weights.slice(0, 0, kRows, 4).zero_();
  std::vector<std::int64_t> first;
  for (const int ranks : {1, 2, 3}) {
    with_table(ranks, {x, {}, weights}, [&](const Table& table) {
      EXPECT_EQ(count_weighing(table), 15'000);
      const auto numbers = draw_different_by_weight(table, 7, 2000);
      if (table.group().rank() == 0 && first.empty()) first = numbers;
      EXPECT_EQ(numbers, first);
      EXPECT_EQ(test::message_of([&] { draw_different_by_weight(table, 7, kRows); }, Fault::Data),
                "15000 rows weigh more than 0, and 20000 are to be drawn; use fewer clusters");
    });
  }
  ASSERT_EQ(std::set<std::int64_t>(first.begin(), first.end()).size(), 2000U);
  std::int64_t heavy = 0;
  for (const std::int64_t row : first) {
    EXPECT_NE(row % 4, 0);
    heavy += row < kRows / 2 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(heavy), 1480, 100);  // fewer than three quarters, as they are not put back
}

}  // namespace
}  // namespace lockstep::ml
