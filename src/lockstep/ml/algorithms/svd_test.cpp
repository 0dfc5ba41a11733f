#include "lockstep/ml/algorithms/svd.h"

#include <limits>

#include <gtest/gtest.h>

#include "lockstep/core/testing.h"
#include "lockstep/ml/testing.h"

namespace lockstep::ml {
namespace {

using testing::blobs;
using testing::kRanksAndThreads;
using testing::with_table;

/// Rows whose singular values fall, around a point that is not the origin.
at::Tensor sample(std::int64_t rows, std::int64_t columns) {
  const auto turn = std::get<0>(at::linalg_qr(blobs(columns, columns, 1, 5)));
  return (blobs(rows, columns, 1, 6) * at::pow(0.7, at::arange(columns, at::kDouble))).mm(turn) + 0.5;
}

TEST(TruncatedSVD, FindsTheLargestSingularValues) {
  const auto x = sample(9000, 30);
  const auto [left, values, right] = at::linalg_svd(x, false);
  for (const char* algorithm : {"randomized", "exact"}) {
    with_table(3, {x, x.select(1, 0)}, [&](const Table& table) {  // a target is no column
      TruncatedSVD svd({.n_components = 4, .algorithm = algorithm});
      svd.fit(table);
      EXPECT_TRUE(at::allclose(svd.singular_values(), values.slice(0, 0, 4), 1e-9)) << algorithm;
      EXPECT_TRUE(
          at::allclose((svd.components() * right.slice(0, 0, 4)).sum(1).abs(), at::ones({4}, at::kDouble), 1e-8));
      const auto reduced = svd.transform(x);
      EXPECT_TRUE(at::allclose(svd.explained_variance(), reduced.var(0, /*unbiased=*/false), 1e-10));
      EXPECT_TRUE(at::allclose(svd.explained_variance_ratio(), reduced.var(0, false) / x.var(0, false).sum(), 1e-10));
      EXPECT_TRUE(at::allclose(svd.inverse_transform(reduced), reduced.mm(svd.components()), 1e-12));
    });
  }
}

TEST(TruncatedSVD, SharesOutNoVarianceThatThereIsNot) {
  with_table(2, {at::full({100, 3}, 7.25, at::kDouble)}, [](const Table& table) {
    TruncatedSVD svd({.n_components = 2});
    svd.fit(table);
    EXPECT_TRUE(at::equal(svd.explained_variance_ratio(), at::zeros({2}, at::kDouble)));
  });
  const auto x = sample(200, 4);
  with_table(2, {x * 1e200}, [](const Table& table) {
    EXPECT_EQ(test::message_of([&] { TruncatedSVD().fit(table); }, Fault::Data),
              "squares of the values are too large; scale the columns");
  });
  with_table(2, {.x = x, .weights = at::zeros({200}, at::kDouble)}, [](const Table& table) {
    EXPECT_EQ(test::message_of([&] { TruncatedSVD().fit(table); }, Fault::Data),
              "the weights of all rows are 0; leave --weights out, or name another field");
  });
}

TEST(SVD, DecomposesAllRows) {
  for (const std::int64_t rows : {5, 3000}) {
    const auto x = sample(rows, 8);
    with_table(2, {x}, [&](const Table& table) {
      SVD svd;
      svd.fit(table);
      const auto u = svd.transform(x);
      EXPECT_TRUE(at::allclose(svd.singular_values(), at::linalg_svdvals(x), 1e-11)) << rows;
      EXPECT_TRUE(at::allclose((u * svd.singular_values()).mm(svd.vh()), x, 1e-11, 1e-12)) << rows;
      EXPECT_TRUE(at::allclose(u.t().mm(u), at::eye(u.size(1), at::kDouble), 0, 1e-9)) << rows;
    });
  }
}

TEST(SVD, OfDependentColumnsHasNoLeftVectorsForThem) {
  auto x = sample(2000, 4);
  x.select(1, 3).copy_(x.select(1, 0) - x.select(1, 1));
  with_table(1, {x}, [&](const Table& table) {
    SVD svd;
    svd.fit(table);
    EXPECT_LT(svd.singular_values()[3].item<double>(), 1e-12 * svd.singular_values()[0].item<double>());
    EXPECT_EQ(svd.transform(x).select(1, 3).abs().max().item<double>(), 0);
  });
}

TEST(SVD, HasTheSameBitsOnAnyNumberOfRanksAndThreads) {
  const auto x = sample(20'001, 20);
  at::Tensor first;
  for (const auto& [ranks, threads] : kRanksAndThreads) {
    with_table(ranks, {x}, [&, threads = threads](const Table& table) {
      SVD svd({.threads = threads});
      TruncatedSVD few({.n_components = 3, .threads = threads}),
          exact({.n_components = 3, .algorithm = "exact", .threads = threads});
      svd.fit(table);
      few.fit(table);
      exact.fit(table);
      const auto all = at::cat({svd.vh().view({-1}), few.components().view({-1}), few.explained_variance_ratio(),
                                exact.components().view({-1}), exact.singular_values()});
      if (table.group().rank() == 0 && !first.defined()) first = all;
      EXPECT_TRUE(at::equal(all, first)) << table.group().size() << " ranks, " << threads << " threads";
    });
  }
}

TEST(SVD, IsReadFromItsFile) {
  const test::TemporaryFolder folder;
  const auto x = sample(500, 5);
  with_table(1, {x, {}, {}, {"a", "b", "c", "d", "e"}}, [&](const Table& table) {
    TruncatedSVD few;
    few.fit(table);
    write_model(folder / "few", few.file(table));
    EXPECT_TRUE(at::equal(TruncatedSVD::from(read_model(folder / "few")).transform(x), few.transform(x)));
    SVD all;
    all.fit(table);
    write_model(folder / "all", all.file(table));
    const auto file = read_model(folder / "all");
    EXPECT_TRUE(at::equal(SVD::from(file).transform(x), all.transform(x)));
    const auto predictor = PredictorRegistry::instance().at("algorithm", "svd")(file);
    EXPECT_EQ(predictor->outputs(), (std::vector<std::string>{"u1", "u2", "u3", "u4", "u5"}));
  });
}

TEST(SVD, RefusesWhatMakesNoSense) {
  EXPECT_EQ(test::message_of([] { TruncatedSVD svd({.n_components = 0}); }), "n_components = 0: it is from 1 on");
  EXPECT_EQ(test::message_of([] { TruncatedSVD svd({.algorithm = "arpack"}); }),
            "algorithm = 'arpack': it is one of randomized, exact");
  with_table(2, {sample(50, 3)}, [](const Table& table) {
    EXPECT_EQ(test::message_of([&] { TruncatedSVD({.n_components = 4}).fit(table); }),
              "n_components = 4 of 50 rows of 3 columns; at most 3 are there");
  });
  auto x = sample(10'000, 3);
  x[9000][2] = std::numeric_limits<double>::infinity();
  with_table(2, {x}, [](const Table& table) {
    const char* message = "row 9000, column 2 is infinite; clean the data";
    EXPECT_EQ(test::message_of([&] { TruncatedSVD().fit(table); }, Fault::Data), message);
    EXPECT_EQ(test::message_of([&] { SVD().fit(table); }, Fault::Data), message);
  });
}

}  // namespace
}  // namespace lockstep::ml
