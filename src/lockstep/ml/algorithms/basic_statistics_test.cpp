#include "lockstep/ml/algorithms/basic_statistics.h"

#include <limits>

#include <gtest/gtest.h>

#include "lockstep/core/testing.h"
#include "lockstep/ml/testing.h"

namespace lockstep::ml {
namespace {

using testing::blobs;
using testing::kRanksAndThreads;
using testing::with_table;

TEST(BasicStatistics, AreOfAllTablesSoFar) {
  const auto x = blobs(20'000, 4, 3, 1, 100);
  BasicStatistics statistics({.ddof = 1});
  with_table(1, {x.slice(0, 0, 12'000)}, [&](const Table& table) { statistics.fit(table); });
  with_table(1, {x.slice(0, 12'000)}, [&](const Table& table) { statistics.partial_fit(table); });
  EXPECT_TRUE(at::equal(statistics.count(), at::full({4}, 20'000, at::kDouble)));
  EXPECT_TRUE(at::allclose(statistics.sum(), x.sum(0), 1e-13));
  EXPECT_TRUE(at::allclose(statistics.mean(), x.mean(0), 1e-14));
  EXPECT_TRUE(at::allclose(statistics.variance(), x.var(0), 1e-11));
  EXPECT_TRUE(at::allclose(statistics.variance().sqrt(), x.std(0), 1e-11));
  EXPECT_TRUE(at::equal(statistics.min(), x.amin(0)));
  EXPECT_TRUE(at::equal(statistics.max(), x.amax(0)));
}

TEST(BasicStatistics, HaveTheSameBitsOnAnyNumberOfRanksAndThreads) {
  const auto x = blobs(30'001, 5, 3);
  at::Tensor first;
  for (const auto& [ranks, threads] : kRanksAndThreads) {
    with_table(ranks, {x}, [&, threads = threads](const Table& table) {
      BasicStatistics statistics({.threads = threads});
      statistics.fit(table);
      const auto both = at::cat({statistics.mean(), statistics.variance()});
      if (table.group().rank() == 0 && !first.defined()) first = both;
      EXPECT_TRUE(at::equal(both, first)) << table.group().size() << " ranks, " << threads << " threads";
    });
  }
}

TEST(BasicStatistics, RefuseWhatMakesNoSense) {
  EXPECT_EQ(test::message_of([] { BasicStatistics statistics({.ddof = -1}); }), "ddof = -1: it is from 0 on");
  auto x = blobs(10'000, 3, 2);
  x[9000][2] = std::numeric_limits<double>::infinity();
  with_table(2, {x}, [](const Table& table) {
    EXPECT_EQ(test::message_of([&] { BasicStatistics().fit(table); }, Fault::Data),
              "row 9000, column 2 is infinite; clean the data");
  });
  BasicStatistics statistics;
  with_table(1, {blobs(50, 3, 2)}, [&](const Table& table) { statistics.fit(table); });
  with_table(1, {blobs(50, 4, 2)}, [&](const Table& table) {
    EXPECT_EQ(test::message_of([&] { statistics.partial_fit(table); }), "a table of 4 columns after one of 3");
  });
}

}  // namespace
}  // namespace lockstep::ml
