#include "lockstep/ml/table.h"

#include <limits>

#include <fmt/format.h>
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
  // What all ranks are told: none waits for others.
  const auto refusal = [](const std::function<TableRows(int rank)>& rows) {
    std::vector<std::string> messages(3);
    comm::testing::on_ranks({3}, [&](comm::Communicator& group) {
      messages[static_cast<std::size_t>(group.rank())] =
          test::message_of([&] { make_table(group, rows(group.rank())); }, Fault::Usage);
    });
    EXPECT_EQ(messages[1], messages[0]);
    EXPECT_EQ(messages[2], messages[0]);
    return messages[0];
  };
  EXPECT_EQ(refusal([](int rank) { return TableRows{at::zeros({4, rank == 2 ? 5 : 6}, at::kDouble)}; }),
            "rank 0 brings rows with 6 columns, rank 2 rows with 5 columns");
  EXPECT_EQ(refusal([](int rank) { return TableRows{at::zeros({4, 3}, rank == 1 ? at::kFloat : at::kDouble)}; }),
            "rank 0 brings float64, rank 1 float32: convert one");
  EXPECT_EQ(
      refusal([](int rank) { return TableRows{at::zeros({4, 3}), {}, rank == 1 ? at::Tensor() : at::ones({4})}; }),
      "rank 0 brings weights, rank 1 none: give them on all ranks or on none");
  for (const auto& shape : {std::vector<std::int64_t>{5, 0}, {3, 0, 2}}) {
    EXPECT_EQ(refusal([&](int) { return TableRows{at::zeros(shape)}; }), "rank 0: rows have no columns");
  }
  EXPECT_EQ(refusal([](int) { return TableRows{at::zeros({0, 3}, at::kDouble)}; }),
            "the table has no rows, on no rank");
  EXPECT_EQ(refusal([](int) { return TableRows{at::zeros({4, 3}, at::kLong)}; }),
            "rank 0: a table holds float32 or float64, not Long");
  EXPECT_EQ(refusal([](int) { return TableRows{at::zeros({4, 3}), {}, at::tensor({1.0, -1.0, 1.0, 1.0})}; }),
            "rank 0: weights of rows are finite numbers from 0 on");

  // Of one rank alone.
  const auto one_bad = [&](const TableRows& bad) {
    const TableRows good{at::zeros({4, 3}), at::zeros({4}), at::ones({4}), {"a", "b", "c"}};
    return refusal([&](int rank) { return rank == 1 ? bad : good; });
  };
  const auto x = at::zeros({4, 3}), one = at::ones({4});
  EXPECT_EQ(one_bad({}), "rank 1: a table is made of a matrix, a row for each sample");
  EXPECT_EQ(one_bad({x.to(at::kLong), one, one}), "rank 1: a table holds float32 or float64, not Long");
  EXPECT_EQ(one_bad({x, at::zeros({5}), one}), "rank 1: 5 targets for 4 rows");
  EXPECT_EQ(one_bad({x, one, at::ones({3})}), "rank 1: 3 weights for 4 rows");
  EXPECT_EQ(one_bad({x, one, -one}), "rank 1: weights of rows are finite numbers from 0 on");
  EXPECT_EQ(one_bad({x, one, one, {"a", "b"}}), "rank 1: 2 names for 3 columns");
  EXPECT_EQ(one_bad({x, one, one, {"a", "c", "b"}}),
            R"(columns have the names [["a","b","c"],[],[]] on rank 0, and [["a","c","b"],[],[]] on rank 1)");
}

TEST(Table, TakesOfARankWithoutRowsNothing) {
  comm::testing::on_ranks({3}, [&](comm::Communicator& group) {
    TableRows rows{at::ones({4, 3}), at::ones({4, 2}), at::ones({4}), {"a", "b", "c"}};
    if (group.rank() != 2) rows = {at::empty({0, 3})};
    const auto table = make_table(group, rows);
    EXPECT_EQ(table->rows(), 4);
    EXPECT_EQ(table->targets(), 2);
    EXPECT_TRUE(table->weighted());
    EXPECT_EQ(table->names(), (std::vector<std::string>{"a", "b", "c"}));
    check_finite(*table);
  });
}

TEST(Table, KnowsOnAnyRankWhereARowIsStored) {
  comm::testing::on_ranks({3}, [](comm::Communicator& group) {
    auto x = at::zeros({5, 2});
    if (group.rank() == 1) x[3][0] = std::numeric_limits<float>::quiet_NaN();
    const auto place = [rank = group.rank()](std::int64_t row) { return fmt::format("part {}: sample {}", rank, row); };
    const auto table = make_table(group, {.x = x, .place_of_row = place});
    EXPECT_EQ(test::message_of([&] { check_finite(*table); }, Fault::Data),
              "row 8, column 0 is no finite number; clean the data, or use --missing mean or drop (part 1: sample 3)");
  });
}

TEST(Table, NamesTheFirstValueThatIsNotFinite) {
  auto x = blobs(20'000, 3, 2);
  x[17'000][2] = std::numeric_limits<double>::infinity();
  x[12'345][1] = std::numeric_limits<double>::quiet_NaN();
  with_table(4, {x, {}, {}, {"a", "b", "c"}}, [](const Table& table) {
    EXPECT_EQ(test::message_of([&] { check_finite(table); }, Fault::Data),
              "row 12345, 'b' is no finite number; clean the data, or use --missing mean or drop");
  });
  // What is infinite no way of --missing mends.
  x[12'345][1] = 0;
  with_table(4, {x, {}, {}, {"a", "b", "c"}}, [](const Table& table) {
    EXPECT_EQ(test::message_of([&] { check_finite(table); }, Fault::Data),
              "row 17000, 'c' is infinite; clean the data");
  });
  with_table(2, {blobs(100, 3, 2)}, [](const Table& table) { check_finite(table); });
}

}  // namespace
}  // namespace lockstep::ml
