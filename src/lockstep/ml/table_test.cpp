#include "lockstep/ml/table.h"

#include <limits>

#include <gtest/gtest.h>

#include "lockstep/core/testing.h"
#include "lockstep/ml/testing.h"

namespace lockstep::ml {
namespace {

using testing::blobs;
using testing::with_table;

TEST(BlockPlan, GivesEachRankItsShare) {
  for (const int ranks : {1, 2, 3, 7, 16}) {
    const auto plan = BlockPlan::even(5'000'000, 20, ranks);
    ASSERT_EQ(plan.first_block.size(), static_cast<std::size_t>(ranks) + 1);
    EXPECT_EQ(plan.first_block.front(), 0);
    EXPECT_EQ(plan.blocks(), (5'000'000 + plan.block_rows - 1) / plan.block_rows);
    const double fair = static_cast<double>(plan.blocks()) / ranks;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto place = static_cast<std::size_t>(rank);
      EXPECT_NEAR(static_cast<double>(plan.first_block[place + 1] - plan.first_block[place]), fair, 1 + fair / 32);
    }
  }
  EXPECT_EQ(BlockPlan::even(10, 3, 4).blocks(), 1);
  EXPECT_EQ(BlockPlan::even(0, 3, 4).blocks(), 0);
}

TEST(Table, HasTheSameBlocksOnAnyNumberOfRanks) {
  const std::int64_t rows = 3 * 8192 + 100;
  const auto x = blobs(rows, 3, 4), weights = at::arange(rows, at::kFloat),
             targets = at::arange(2 * rows).view({rows, 2});
  for (const int ranks : {1, 2, 3, 4, 8}) {
    std::vector<int> seen(4);
    with_table(ranks, {x, targets, weights}, [&](const Table& table) {
      EXPECT_EQ(table.rows(), rows);
      EXPECT_EQ(table.columns(), 3);
      at::Tensor scratch;
      for (std::int64_t number = table.own_begin(); number < table.own_end(); ++number) {
        const Block block = table.block(number, scratch);
        ++seen[static_cast<std::size_t>(number)];
        ASSERT_EQ(block.first, number * 8192);
        ASSERT_EQ(block.rows, number < 3 ? 8192 : 100);
        for (std::int64_t row = 0; row < block.rows; ++row) {
          ASSERT_EQ(block.x<double>()[3 * row + 1], x[block.first + row][1].item<double>());
          ASSERT_EQ(block.weights[row], static_cast<double>(block.first + row));
          ASSERT_EQ(block.targets[2 * row + 1], static_cast<double>(2 * (block.first + row) + 1));
        }
      }
    });
    EXPECT_EQ(seen, (std::vector<int>{1, 1, 1, 1})) << ranks;
  }
}

TEST(Table, GivesRowsByNumber) {
  const auto x = blobs(20'000, 5, 2).to(at::kFloat);
  with_table(3, {x}, [&](const Table& table) {
    const auto rows = rows_at(table, {19'999, 0, 8192});
    EXPECT_TRUE(at::equal(rows, x.index({at::tensor({19'999L, 0L, 8192L})}).to(at::kDouble)));
  });
}

TEST(Table, RefusesWhatDoesNotGoTogether) {
  const auto refusal = [](const std::function<TableRows(int rank)>& rows) {
    std::string message;
    comm::testing::on_ranks({3}, [&](comm::Communicator& group) {
      const auto mine = test::message_of([&] { make_table(group, rows(group.rank())); });
      if (group.rank() == 0) message = mine;
      EXPECT_NE(mine, "");
    });
    return message;
  };
  EXPECT_EQ(refusal([](int rank) { return TableRows{at::zeros({4, rank == 2 ? 5 : 6}, at::kDouble)}; }),
            "rank 0 has rows with 6 columns, rank 2 with 5");
  EXPECT_EQ(refusal([](int) { return TableRows{at::zeros({0, 3}, at::kDouble)}; }),
            "the table has no rows, on no rank");
  EXPECT_EQ(refusal([](int) { return TableRows{at::zeros({4, 3}, at::kLong)}; }),
            "a table holds float32 or float64, not Long");
  EXPECT_EQ(refusal([](int) { return TableRows{at::zeros({4, 3}), {}, at::tensor({1.0, -1.0, 1.0, 1.0})}; }),
            "weights of rows are finite numbers from 0 on");
}

TEST(Table, NamesTheFirstValueThatIsNotFinite) {
  auto x = blobs(20'000, 3, 2);
  x[17'000][2] = std::numeric_limits<double>::infinity();
  x[12'345][1] = std::numeric_limits<double>::quiet_NaN();
  with_table(4, {x, {}, {}, {"a", "b", "c"}}, [](const Table& table) {
    EXPECT_EQ(test::message_of([&] { check_finite(table); }, Fault::Data),
              "row 12345, 'b' is no finite number; clean the data, or use --missing mean or drop");
  });
  with_table(2, {blobs(100, 3, 2)}, [](const Table& table) { check_finite(table); });
}

}  // namespace
}  // namespace lockstep::ml
