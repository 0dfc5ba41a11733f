#include "lockstep/ml/folds.h"

#include <map>
#include <set>

#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "lockstep/core/testing.h"
#include "lockstep/ml/own_rows.h"
#include "lockstep/ml/testing.h"

namespace lockstep::ml {
namespace {

using testing::blobs;
using testing::kRanksAndThreads;
using testing::with_table;

/// Of all ranks, one behind the other.
std::vector<std::int16_t> gathered(const Table& table, const Folds& folds) {
  std::vector<std::int16_t> all;
  for (const auto& bytes : table.group().gather_bytes(
           {reinterpret_cast<const char*>(folds.of_rows.data()), folds.of_rows.size() * sizeof(std::int16_t)})) {
    const auto* words = reinterpret_cast<const std::int16_t*>(bytes.data());
    all.insert(all.end(), words, words + bytes.size() / sizeof(std::int16_t));
  }
  return all;
}

TEST(Folds, AreNeighboursOfWhichTheFirstHaveOneMore) {
  with_table(2, {blobs(103, 2, 1)}, [](const Table& table) {
    std::vector<std::int16_t> expected;
    const int sizes[] = {21, 21, 21, 20, 20};  // as scikit-learn's
    for (int fold = 0; fold < 5; ++fold)
      expected.insert(expected.end(), static_cast<std::size_t>(sizes[fold]), static_cast<std::int16_t>(fold));
    EXPECT_EQ(gathered(table, deal_rows(table, 5)), expected);
  });
}

TEST(Folds, ThatAreDrawnAreOfOneSizeAndTheSameOnAnyRanks) {
  std::vector<std::int16_t> first;
  for (const auto& [ranks, threads] : kRanksAndThreads) {
    with_table(ranks, {blobs(30'001, 2, 1)}, [&](const Table& table) {
      const auto all = gathered(table, deal_rows(table, 7, 5));
      ASSERT_EQ(all.size(), 30'001U);
      if (table.group().rank() == 0 && first.empty()) first = all;
      EXPECT_EQ(all, first);
      EXPECT_NE(all, gathered(table, deal_rows(table, 7, 6)));
    });
  }
  std::map<int, int> sizes;
  for (const auto fold : first) ++sizes[fold];
  for (const auto& [fold, size] : sizes) EXPECT_TRUE(size == 4285 || size == 4286) << fold << " " << size;
  EXPECT_EQ(sizes.size(), 7U);
}

TEST(Folds, LeaveRowsThatCanBeTakenByThemselves) {
  const at::Tensor x = blobs(20'001, 2, 1), y = blobs(20'001, 1, 1, 7);
  for (const int ranks : {1, 2, 3}) {
    with_table(ranks, {x, y}, [&](const Table& table) {
      const Folds folds = deal_rows(table, 3);
      const auto train = rows_that_weigh(*without_fold(table, folds, 1));
      const auto test = rows_that_weigh(*fold_alone(table, folds, 1));
      EXPECT_FALSE(train->weighted());
      const at::Tensor rows = gather_rows(*train, own_x(*train)), targets = gather_rows(*train, own_targets(*train));
      const at::Tensor left = gather_rows(*test, own_x(*test));
      if (table.group().rank() != 0) return;
      EXPECT_TRUE(at::equal(rows, at::cat({x.slice(0, 0, 6667), x.slice(0, 13'334)})));
      EXPECT_TRUE(at::equal(targets, at::cat({y.slice(0, 0, 6667), y.slice(0, 13'334)})));
      EXPECT_TRUE(at::equal(left, x.slice(0, 6667, 13'334)));
    });
  }
}

TEST(Folds, OfClassesAreThoseOfScikitLearn) {
  // sklearn.model_selection.StratifiedKFold(3) of these.
  const at::Tensor labels =
      at::tensor({2., 0., 1., 1., 0., 2., 2., 0., 0., 1., 1., 2., 0., 0., 1., 2., 2., 0., 1., 0.}, at::kDouble);
  const std::vector<std::int16_t> expected = {0, 0, 0, 0, 0, 0, 1, 0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2};
  with_table(1, {blobs(20, 2, 1), labels}, [&](const Table& table) {
    EXPECT_EQ(gathered(table, deal_classes(table, Classes::of(table, 1), 3, 1)), expected);
  });
}

TEST(Folds, OfClassesHaveTheirShareOfEachAndAreTheSameOnAnyRanks) {
  const auto x = blobs(30'001, 2, 1);
  const auto labels = (x.select(1, 0) * 2).floor().clamp(-3, 3);
  for (const bool drawn : {false, true}) {
    std::vector<std::int16_t> first;
    for (const auto& [ranks, threads] : kRanksAndThreads) {
      with_table(ranks, {x, labels}, [&, threads = threads](const Table& table) {
        const auto folds = deal_classes(table, Classes::of(table, threads), 4, threads,
                                        drawn ? std::optional<std::uint64_t>(3) : std::nullopt);
        const auto all = gathered(table, folds);
        if (table.group().rank() == 0 && first.empty()) first = all;
        EXPECT_EQ(all, first);
      });
    }
    std::map<std::pair<double, int>, int> sizes;
    std::map<double, int> totals;
    for (std::size_t row = 0; row < first.size(); ++row) {
      const double label = labels.const_data_ptr<double>()[row];
      ++sizes[{label, first[row]}];
      ++totals[label];
    }
    EXPECT_EQ(sizes.size(), totals.size() * 4);
    for (const auto& [place, size] : sizes) EXPECT_LE(std::abs(size - totals[place.first] / 4), 1);
  }
}

TEST(Folds, LeaveRowsOutByTheirWeight) {
  const auto x = blobs(20'000, 2, 1), weights = at::arange(20'000, at::kDouble).remainder(3) + 1;
  for (const bool weighted : {false, true}) {
    with_table(3, {x, x.select(1, 0), weighted ? weights : at::Tensor()}, [&](const Table& table) {
      const auto folds = deal_rows(table, 5, 1);
      const auto train = without_fold(table, folds, 2), test = fold_alone(table, folds, 2);
      at::Tensor scratch;
      for (std::int64_t number = table.own_begin(); number < table.own_end(); ++number) {
        const Block block = table.block(number, scratch), with = train->block(number, scratch),
                    alone = test->block(number, scratch);
        EXPECT_EQ(with.values, block.values);
        for (std::int64_t row = 0; row < block.rows; ++row) {
          const bool left_out = folds.of_rows[static_cast<std::size_t>(table.own_place(number) + row)] == 2;
          ASSERT_EQ(with.weight(row), left_out ? 0 : block.weight(row));
          ASSERT_EQ(alone.weight(row), left_out ? block.weight(row) : 0);
        }
      }
    });
  }
}

TEST(Folds, AreRefusedWhereTheyMakeNoSense) {
  with_table(2, {blobs(40, 2, 1), at::arange(40, at::kDouble).remainder(20)}, [](const Table& table) {
    EXPECT_EQ(test::message_of([&] { deal_rows(table, 1); }),
              "1 folds of 40 rows: there are from 2 to as many as rows, and at most 32767");
    EXPECT_EQ(test::message_of([&] { deal_rows(table, 41); }),
              "41 folds of 40 rows: there are from 2 to as many as rows, and at most 32767");
    EXPECT_EQ(test::message_of([&] { deal_classes(table, Classes::of(table, 1), 3, 1); }),
              "3 folds, and no class has more than 2 rows");
  });
}

}  // namespace
}  // namespace lockstep::ml
