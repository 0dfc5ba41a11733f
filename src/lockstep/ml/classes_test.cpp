#include "lockstep/ml/classes.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "lockstep/core/testing.h"
#include "lockstep/ml/testing.h"

namespace lockstep::ml {
namespace {

using testing::blobs;
using testing::kRanksAndThreads;
using testing::with_table;

constexpr std::int64_t kRows = 30'001;

/// Values that come in any order, some in few blocks alone.
at::Tensor labels_of(const std::vector<double>& values) {
  at::Tensor labels = at::empty({kRows}, at::kDouble);
  for (std::int64_t row = 0; row < kRows; ++row) {
    const auto place = row == 20'000 ? values.size() - 1 : static_cast<std::size_t>(row * 7) % (values.size() - 1);
    labels.mutable_data_ptr<double>()[row] = values[place];
  }
  return labels;
}

TEST(Classes, AreTheSortedValuesOfTheTarget) {
  const std::vector<std::vector<double>> cases = {
      {1, 0}, {5, 255, 0, 256, 1e9, 17}, {7, -1, 2, -1e300, 3}, {2, 300, -4, -400, 0}};
  for (const auto& values : cases) {
    auto sorted = values;
    std::sort(sorted.begin(), sorted.end());
    const at::Tensor labels = labels_of(values);
    for (const auto& [ranks, threads] : kRanksAndThreads) {
      with_table(ranks, {blobs(kRows, 2, 1), labels}, [&, threads = threads](const Table& table) {
        const auto classes = Classes::of(table, threads);
        EXPECT_EQ(classes.values(), sorted);
        EXPECT_EQ(classes.target(), "target");
        const auto& [numbers, weights] = classes.rows(table, threads);
        EXPECT_EQ(classes.numbers(table, threads), numbers);
        for (std::size_t i = 0; i < sorted.size(); ++i) {
          EXPECT_EQ(weights[i], labels.eq(sorted[i]).sum().item<double>());
        }
        ASSERT_EQ(static_cast<std::int64_t>(numbers.size()), table.own_rows());
        const std::int64_t first = table.plan().begin(table.own_begin());
        for (std::size_t i = 0; i < numbers.size(); ++i) {
          const double label = labels.const_data_ptr<double>()[first + static_cast<std::int64_t>(i)];
          ASSERT_EQ(sorted[static_cast<std::size_t>(numbers[i])], label);
        }
      });
    }
  }
}

TEST(Classes, OfOtherValuesHaveNoNumber) {
  const std::vector<double> values{-2.5, 0, 3, 1000};
  const ClassNumbers number_of(values);
  for (const double other : {-2.0, 1.0, 3.5, 255.0, 999.0, 2000.0, std::nan("")}) EXPECT_EQ(number_of(other), -1);
  EXPECT_EQ(number_of(-2.5), 0);
  EXPECT_EQ(number_of(-0.0), 1);
  EXPECT_EQ(number_of(1000), 3);
}

TEST(Classes, GiveBackTheirValuesAndNames) {
  const at::Tensor x = blobs(50, 2, 1), whole = at::arange(50, at::kDouble).remainder(3) + 1;
  with_table(2, {x, whole, {}, {}, {"kind"}, {"none", "red", "green"}}, [&](const Table& table) {
    const auto classes = Classes::of(table, 1);
    EXPECT_EQ(classes.target(), "kind");
    EXPECT_EQ(classes.name_of(0), "red");
    EXPECT_EQ(classes.name_of(1), "green");
    EXPECT_EQ(classes.name_of(2), "3");  // the data names no more
    const auto values = classes.values_of(at::tensor({2, 0}, at::kInt));
    EXPECT_EQ(values.scalar_type(), at::kLong);
    EXPECT_TRUE(at::equal(values, at::tensor({3, 1}, at::kLong)));
    ModelFile file{.algorithm = "test"};
    classes.add_to(file);
    EXPECT_EQ(Classes::from(file), classes);
  });
  with_table(1, {x, whole * 1e300}, [&](const Table& table) {
    const auto classes = Classes::of(table, 1);
    EXPECT_EQ(classes.name_of(0), "1e+300");
    EXPECT_TRUE(at::equal(classes.values_of(at::tensor({1}, at::kInt)), at::tensor({2e300}, at::kDouble)));
  });
}

TEST(Classes, RefuseWhatIsNoTargetOfClasses) {
  with_table(3, {blobs(9000, 2, 1)}, [](const Table& table) {
    EXPECT_EQ(test::message_of([&] { Classes::of(table, 1); }), "a classifier needs one target, not 0");
  });
  with_table(3, {blobs(9000, 2, 1), blobs(9000, 1, 1)}, [](const Table& table) {
    EXPECT_EQ(test::message_of([&] { Classes::of(table, 1); }),
              "'target' has more than 4096 different values: these are no classes, but what a regression explains");
  });
  at::Tensor labels = at::arange(9000, at::kDouble).remainder(3);
  with_table(3, {blobs(9000, 2, 1), labels / 4}, [](const Table& table) {
    EXPECT_EQ(test::message_of([&] { Classes::of(table, 1); }),
              "'target' is 0.25 in some row: classes are whole numbers or text, and what goes on continuously is "
              "explained by a regression, such as linreg or knn --regression");
  });
  labels[8500] = std::numeric_limits<double>::quiet_NaN();
  with_table(3, {blobs(9000, 2, 1), labels}, [](const Table& table) {
    EXPECT_EQ(test::message_of([&] { Classes::of(table, 1); }, Fault::Data),
              "row 8500, 'target' is no finite number; clean the data, or use --missing drop");
  });
  EXPECT_EQ(test::message_of([] { Classes::from({.algorithm = "test"}); }, Fault::Data),
            "the model has no 'classes', as one of test has");
}

TEST(Classes, AccuracyIsTheWeightedShareOfRightOnes) {
  const auto x = blobs(20'000, 2, 1), weights = at::arange(20'000, at::kDouble).remainder(5);
  const auto truth = x.select(1, 0).gt(0).to(at::kDouble), said = x.select(1, 0).gt(0.5).to(at::kInt);
  const double expected = ((truth.to(at::kInt) == said).to(at::kDouble) * weights).sum().item<double>();
  with_table(3, {x, truth, weights}, [&](const Table& table) {
    const auto share = accuracy(table, Classes::of(table, 1), 2, [](const Block& block, std::int32_t* numbers) {
      for (std::int64_t row = 0; row < block.rows; ++row) numbers[row] = block.x<double>()[row * 2] > 0.5 ? 1 : 0;
    });
    EXPECT_DOUBLE_EQ(share, expected / weights.sum().item<double>());
  });
}

}  // namespace
}  // namespace lockstep::ml
