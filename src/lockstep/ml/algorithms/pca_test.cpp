#include "lockstep/ml/algorithms/pca.h"

#include <cmath>
#include <limits>
#include <numbers>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "lockstep/core/testing.h"
#include "lockstep/ml/testing.h"

namespace lockstep::ml {
namespace {

using testing::blobs;
using testing::kRanksAndThreads;
using testing::with_table;

/// Rows that vary less and less along directions that are mixtures of the columns.
at::Tensor sample(std::int64_t rows, std::int64_t columns, std::uint64_t seed = 5) {
  const auto turn = std::get<0>(at::linalg_qr(blobs(columns, columns, 1, seed)));
  return (blobs(rows, columns, 1, seed + 1) * at::pow(0.7, at::arange(columns, at::kDouble))).mm(turn) + 100;
}

at::Tensor relative(const at::Tensor& one, const at::Tensor& other) { return ((one - other) / other).abs().max(); }

TEST(PCA, FindsTheDirectionsOfMostVariance) {
  const auto x = sample(12'000, 8);
  auto [left, values, right] = at::linalg_svd(x - x.mean(0), false);
  for (const char* solver : {"auto", "covariance_eigh", "full", "randomized"}) {
    with_table(3, {x, x.select(1, 0)}, [&](const Table& table) {  // a target is no column
      PCA pca({.n_components = 3, .svd_solver = solver});
      pca.fit(table);
      const auto variances = values.square() / 11'999;
      EXPECT_LT(relative(pca.explained_variance(), variances.slice(0, 0, 3)).item<double>(), 1e-11) << solver;
      EXPECT_LT(relative(pca.explained_variance_ratio(), (variances / variances.sum()).slice(0, 0, 3)).item<double>(),
                1e-11);
      EXPECT_LT(relative(pca.singular_values(), values.slice(0, 0, 3)).item<double>(), 1e-11);
      EXPECT_NEAR(pca.noise_variance() / variances.slice(0, 3).mean().item<double>(), 1, 1e-10);
      EXPECT_TRUE(at::allclose(pca.mean(), x.mean(0), 1e-13));
      EXPECT_TRUE(
          at::allclose((pca.components() * right.slice(0, 0, 3)).sum(1).abs(), at::ones({3}, at::kDouble), 1e-10));
      const auto largest = pca.components().gather(1, pca.components().abs().argmax(1, true));
      EXPECT_GT(largest.min().item<double>(), 0);
    });
  }
}

TEST(PCA, TakesAsManyComponentsAsAreWanted) {
  const auto x = sample(5000, 6);
  with_table(2, {x}, [&](const Table& table) {
    PCA all;
    all.fit(table);
    EXPECT_EQ(all.n_components(), 6);
    EXPECT_EQ(all.noise_variance(), 0);
    EXPECT_NEAR(all.explained_variance_ratio().sum().item<double>(), 1, 1e-12);
    const double two = all.explained_variance_ratio().slice(0, 0, 2).sum().item<double>();
    for (const double off : {-1e-6, 1e-6}) {
      PCA share({.n_components = two + off});
      share.fit(table);
      EXPECT_EQ(share.n_components(), off < 0 ? 2 : 3);
    }
  });
  with_table(2, {sample(40, 60)}, [](const Table& table) {
    PCA all;
    all.fit(table);
    EXPECT_EQ(all.n_components(), 40);
    EXPECT_EQ(all.svd_solver(), "full");
  });
}

TEST(PCA, TransformsThereAndBack) {
  const auto x = sample(3000, 5), other = sample(100, 5, 9);
  with_table(1, {x}, [&](const Table& table) {
    for (const bool whiten : {false, true}) {
      PCA pca({.n_components = 2, .whiten = whiten}), all({.whiten = whiten});
      pca.fit(table);
      all.fit(table);
      const auto reduced = pca.transform(x);
      EXPECT_LT(reduced.mean(0).abs().max().item<double>(), 1e-10);
      const auto expected = whiten ? at::ones({2}, at::kDouble) : pca.explained_variance();
      EXPECT_TRUE(at::allclose(reduced.var(0), expected, 1e-9));
      EXPECT_TRUE(at::allclose(all.inverse_transform(all.transform(other)), other, 1e-12));
      const auto near = pca.inverse_transform(pca.transform(other)) - pca.mean();
      EXPECT_TRUE(at::allclose(near, (other - pca.mean()).mm(pca.components().t()).mm(pca.components()), 1e-9, 1e-10));
    }
  });
}

TEST(PCA, ScoresByTheLikelihoodOfItsModel) {
  const auto x = sample(3000, 6), other = sample(700, 6, 5) * 1.1;
  for (const int count : {2, 6}) {
    PCA pca({.n_components = static_cast<double>(count)});
    with_table(1, {x}, [&](const Table& table) { pca.fit(table); });
    const auto& v = pca.components();
    const auto covariance = v.t().mm(v * (pca.explained_variance() - pca.noise_variance()).unsqueeze(1)) +
                            pca.noise_variance() * at::eye(6, at::kDouble);
    const auto precision = at::linalg_inv(covariance), off = other - pca.mean();
    const auto squares = (off.mm(precision) * off).sum(1).mean().item<double>();
    const double expected =
        -0.5 * (squares - at::logdet(precision).item<double>() + 6 * std::log(2 * std::numbers::pi));
    with_table(3, {other}, [&](const Table& table) { EXPECT_NEAR(pca.score(table) / expected, 1, 1e-9) << count; });
  }
}

TEST(PCA, HasNoLikelihoodBesideAllVariance) {
  auto x = blobs(500, 3, 2);
  x.select(1, 1).fill_(7);
  with_table(2, {x}, [&](const Table& table) {
    for (const double components : {2.0, 3.0}) {
      PCA pca({.n_components = components});
      pca.fit(table);
      EXPECT_EQ(test::message_of([&] { (void)pca.score(table); }),
                "the components explain all variance: rows beside them have no likelihood; fit fewer components");
    }
  });
}

TEST(PCA, CountsWeightsAsRows) {
  const auto x = sample(3000, 4), times = at::arange(3000, at::kLong).remainder(3);
  const auto repeated = x.repeat_interleave(times, 0);
  for (const char* solver : {"covariance_eigh", "full"}) {
    PCA weighted({.svd_solver = solver}), plain({.svd_solver = solver});
    with_table(1, {x, {}, times}, [&](const Table& table) { weighted.fit(table); });
    with_table(1, {repeated}, [&](const Table& table) { plain.fit(table); });
    EXPECT_TRUE(at::allclose(weighted.explained_variance(), plain.explained_variance(), 1e-11)) << solver;
    EXPECT_TRUE(at::allclose(weighted.components(), plain.components(), 1e-9, 1e-10)) << solver;
  }
}

TEST(PCA, OfRowsInFewerDimensionsHasComponentsWithoutVariance) {
  auto x = sample(2000, 4);
  x.select(1, 3).copy_(x.select(1, 0) + x.select(1, 1));
  with_table(2, {x}, [&](const Table& table) {
    PCA pca({.whiten = true});
    pca.fit(table);
    EXPECT_LT(pca.explained_variance_ratio()[3].item<double>(), 1e-14);
    EXPECT_TRUE(pca.transform(x).isfinite().all().item<bool>());
  });
}

TEST(PCA, HasTheSameBitsOnAnyNumberOfRanksAndThreads) {
  const auto x = sample(30'001, 30);
  for (const char* solver : {"covariance_eigh", "full", "randomized"}) {
    for (const auto type : {at::kDouble, at::kFloat}) {
      at::Tensor first;
      for (const auto& [ranks, threads] : kRanksAndThreads) {
        with_table(ranks, {x.to(type)}, [&, threads = threads](const Table& table) {
          PCA pca({.n_components = 4, .svd_solver = solver, .threads = threads});
          pca.fit(table);
          const auto all = at::cat({pca.components().view({-1}), pca.explained_variance(), pca.mean()});
          if (table.group().rank() == 0 && !first.defined()) first = all;
          EXPECT_TRUE(at::equal(all, first))
              << solver << ", " << table.group().size() << " ranks, " << threads << " threads";
        });
      }
    }
  }
}

TEST(PCA, OfVeryManyColumnsHasTheSameBitsOnAnyNumberOfThreads) {
  // So many that a sum over them is cut by the threads of torch.
  const auto x = blobs(20, 49'152, 3);
  PCA first;
  for (const int threads : {1, 2, 5}) {
    const int before = at::get_num_threads();
    at::set_num_threads(threads);
    with_table(1, {x}, [&](const Table& table) {
      PCA pca({.n_components = 2, .svd_solver = "randomized", .threads = threads});
      pca.fit(table);
      if (threads == 1) first = pca;
      EXPECT_EQ(pca.noise_variance(), first.noise_variance()) << threads << " threads";
      EXPECT_TRUE(at::equal(pca.explained_variance_ratio(), first.explained_variance_ratio()));
    });
    at::set_num_threads(before);
  }
}

TEST(PCA, IsReadFromItsFile) {
  const test::TemporaryFolder folder;
  const auto x = sample(500, 3);
  with_table(1, {x, {}, {}, {"a", "b", "c"}}, [&](const Table& table) {
    PCA pca({.n_components = 2, .whiten = true});
    pca.fit(table);
    write_model(folder / "model", pca.file(table));
    const auto file = read_model(folder / "model");
    EXPECT_EQ(file.columns, (std::vector<std::string>{"a", "b", "c"}));
    const auto again = PCA::from(file);
    EXPECT_TRUE(at::equal(again.transform(x), pca.transform(x)));
    EXPECT_EQ(again.score(table), pca.score(table));
    const auto predictor = PredictorRegistry::instance().at("algorithm", "pca")(file);
    EXPECT_EQ(predictor->outputs(), (std::vector<std::string>{"pc1", "pc2"}));
  });
}

TEST(PCA, RefusesWhatMakesNoSense) {
  EXPECT_EQ(test::message_of([] { PCA pca({.n_components = 2.5}); }),
            "n_components = 2.5: it is a whole number, or a share between 0 and 1");
  EXPECT_EQ(test::message_of([] { PCA pca({.svd_solver = "ful"}); }),
            "svd_solver = 'ful': it is one of auto, covariance_eigh, full, randomized");
  with_table(2, {sample(50, 3)}, [](const Table& table) {
    EXPECT_EQ(test::message_of([&] { PCA({.n_components = 4}).fit(table); }),
              "n_components = 4 of 50 rows of 3 columns; at most 3 are there");
    EXPECT_EQ(test::message_of([&] { PCA({.n_components = 0.5, .svd_solver = "randomized"}).fit(table); }),
              "n_components = 0.5: svd_solver \"randomized\" needs a number of components");
  });
  with_table(2, {sample(1, 3)}, [](const Table& table) {
    for (const char* solver : {"covariance_eigh", "full"}) {
      EXPECT_EQ(
          test::message_of([&] { PCA({.svd_solver = solver}).fit(table); }),
          "rows that weigh 1 together have no variance: components need two rows, or weights of more than 1 in all");
    }
  });
  auto x = sample(10'000, 3);
  x[9000][2] = std::numeric_limits<double>::quiet_NaN();
  with_table(2, {x}, [](const Table& table) {
    for (const char* solver : {"covariance_eigh", "full", "randomized"}) {
      EXPECT_EQ(test::message_of([&] { PCA({.n_components = 1, .svd_solver = solver}).fit(table); }, Fault::Data),
                "row 9000, column 2 is no finite number; clean the data, or use --missing mean or drop");
    }
  });
}

}  // namespace
}  // namespace lockstep::ml
