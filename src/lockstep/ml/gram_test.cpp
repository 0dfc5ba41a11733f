#include "lockstep/ml/gram.h"

#include <limits>

#include <gtest/gtest.h>

#include "lockstep/core/testing.h"
#include "lockstep/ml/testing.h"

namespace lockstep::ml {
namespace {

using testing::blobs;
using testing::kRanksAndThreads;
using testing::with_table;

TEST(Gram, IsOfCentredColumnsAndTargets) {
  const auto x = blobs(20'000, 6, 3, 1, 1e5), y = at::stack({x.select(1, 0) * 2 + 1, x.select(1, 2).sin()}, 1);
  const auto weights = at::arange(20'000, at::kDouble).sin() + 1.5;
  for (const bool weighted : {false, true}) {
    const auto w = weighted ? weights : at::ones({20'000}, at::kDouble);
    const auto z = at::cat({x, y}, 1);
    const auto mean = (z * w.unsqueeze(1)).sum(0) / w.sum();
    const auto centred = (z - mean).t().mm((z - mean) * w.unsqueeze(1));
    with_table(3, {x, y, weighted ? weights : at::Tensor()}, [&](const Table& table) {
      const auto found = gram(table, 2);
      EXPECT_NEAR(found.weight / w.sum().item<double>(), 1, 1e-13);
      EXPECT_TRUE(at::allclose(found.mean, mean, 1e-13, 0));
      EXPECT_LT(((found.centred - centred).abs().max() / centred.abs().max()).item<double>(), 1e-11);
    });
  }
}

TEST(Gram, LosesNoDigitsWhereRowsAreMultipliedAsTheyLie) {
  const auto x = blobs(20'000, 21, 3);
  for (const double deviations : {0.0, 25.0, 40.0}) {
    const auto z = (x - x.mean(0)) / x.std(0) + deviations, centred = z - z.mean(0);
    const auto products = centred.t().mm(centred);
    with_table(2, {z.slice(1, 0, 20), z.slice(1, 20)}, [&](const Table& table) {
      EXPECT_EQ(first_look(table).small, deviations < 32);
      EXPECT_LT(((gram(table, 2).centred - products).abs().max() / products.abs().max()).item<double>(), 1e-13);
    });
  }
}

TEST(Gram, HasTheSameBitsOnAnyNumberOfRanksAndThreads) {
  const auto x = blobs(30'001, 21, 3), y = x.select(1, 3).exp();
  for (const auto type : {at::kDouble, at::kFloat}) {
    Gram first;
    for (const auto& [ranks, threads] : kRanksAndThreads) {
      with_table(ranks, {x.to(type), y}, [&, threads = threads](const Table& table) {
        const auto found = gram(table, threads);
        if (table.group().rank() == 0 && !first.mean.defined()) first = found;
        EXPECT_TRUE(at::equal(found.centred, first.centred))
            << table.group().size() << " ranks, " << threads << " threads";
        EXPECT_TRUE(at::equal(found.mean, first.mean));
      });
    }
  }
}

TEST(Gram, NamesWhatIsNotFinite) {
  auto x = blobs(10'000, 3, 2);
  x[9999][1] = std::numeric_limits<double>::quiet_NaN();
  with_table(2, {x}, [](const Table& table) {
    EXPECT_EQ(test::message_of([&] { gram(table, 1); }, Fault::Data),
              "row 9999, column 1 is no finite number; clean the data, or use --missing mean or drop");
  });
  with_table(2, {blobs(100, 3, 2) * 1e200}, [](const Table& table) {
    EXPECT_EQ(test::message_of([&] { gram(table, 1); }, Fault::Data),
              "products of the columns are too large for float64; scale the columns");
  });
}

}  // namespace
}  // namespace lockstep::ml
