#include "lockstep/ml/singular_values.h"

#include <gtest/gtest.h>

#include "lockstep/ml/testing.h"

namespace lockstep::ml {
namespace {

using testing::blobs;
using testing::kRanksAndThreads;
using testing::with_table;

/// Columns whose spread falls by a factor from one to the next, turned so that each is a mixture.
at::Tensor falling(std::int64_t rows, std::int64_t columns, double factor) {
  const auto turn = std::get<0>(at::linalg_qr(blobs(columns, columns, 1, 8)));
  return (blobs(rows, columns, 1, 9) * at::pow(factor, at::arange(columns, at::kDouble))).mm(turn);
}

TEST(SingularValues, AreThoseOfTheRows) {
  const auto x = falling(12'000, 9, 0.5), shift = x.mean(0);
  const auto [left, values, right] = at::linalg_svd(x - shift, false);
  with_table(3, {x}, [&](const Table& table) {
    const auto found = singular_values(table, 2, shift);
    EXPECT_TRUE(at::allclose(found.values, values, 1e-12));
    EXPECT_TRUE(at::allclose((found.vectors * right).sum(1).abs(), at::ones({9}, at::kDouble), 1e-11));
    const auto largest = found.vectors.gather(1, found.vectors.abs().argmax(1, true));
    EXPECT_GT(largest.min().item<double>(), 0);
  });
}

TEST(SingularValues, OfFewRowsAreAsMany) {
  const auto x = blobs(4, 7, 2);
  with_table(2, {x}, [&](const Table& table) {
    const auto found = singular_values(table, 1);
    EXPECT_TRUE(at::allclose(found.values, at::linalg_svdvals(x), 1e-12));
    EXPECT_EQ(found.vectors.sizes(), at::IntArrayRef({4, 7}));
  });
}

TEST(RandomSingularValues, AreNearlyTheLargest) {
  const auto x = falling(12'000, 40, 0.8);
  const auto values = at::linalg_svdvals(x).slice(0, 0, 5);
  with_table(2, {x}, [&](const Table& table) {
    const auto found = random_singular_values(table, 1, {.components = 5, .iterations = 3});
    EXPECT_TRUE(at::allclose(found.values, values, 1e-6));
    EXPECT_TRUE(at::allclose(found.vectors.mm(found.vectors.t()), at::eye(5, at::kDouble), 0, 1e-12));
    EXPECT_TRUE(at::allclose(x.mm(found.vectors.t()).norm(2, 0), found.values, 1e-12));
    const auto other = random_singular_values(table, 1, {.components = 5, .iterations = 3, .seed = 7});
    EXPECT_FALSE(at::equal(other.vectors, found.vectors));
  });
}

TEST(RandomSingularValues, OfNarrowTablesAreExact) {
  const auto x = falling(5000, 8, 0.7);
  with_table(2, {x}, [&](const Table& table) {
    const auto all = singular_values(table, 1);
    const auto few = random_singular_values(table, 1, {.components = 3});
    EXPECT_TRUE(at::equal(few.values, all.values.slice(0, 0, 3)));
    EXPECT_TRUE(at::equal(few.vectors, all.vectors.slice(0, 0, 3)));
  });
}

TEST(SingularValues, HaveTheSameBitsOnAnyNumberOfRanksAndThreads) {
  const auto x = falling(20'001, 24, 0.9);
  at::Tensor first, first_random;
  for (const auto& [ranks, threads] : kRanksAndThreads) {
    with_table(ranks, {x}, [&, threads = threads](const Table& table) {
      const auto exact = singular_values(table, threads).vectors;
      const auto random = random_singular_values(table, threads, {.components = 3}).vectors;
      if (table.group().rank() == 0 && !first.defined()) {
        first = exact;
        first_random = random;
      }
      EXPECT_TRUE(at::equal(exact, first)) << table.group().size() << " ranks, " << threads << " threads";
      EXPECT_TRUE(at::equal(random, first_random)) << table.group().size() << " ranks, " << threads << " threads";
    });
  }
}

TEST(SignRule, TurnsTheLargestEntryUp) {
  auto vectors = at::tensor({1.0, -3.0, 2.0, -0.5, 0.25, 0.5, 0.0, 0.0, 0.0}, at::kDouble).view({3, 3});
  sign_rule_(vectors);
  EXPECT_TRUE(
      at::equal(vectors, at::tensor({-1.0, 3.0, -2.0, 0.5, -0.25, -0.5, 0.0, 0.0, 0.0}, at::kDouble).view({3, 3})));
}

}  // namespace
}  // namespace lockstep::ml
