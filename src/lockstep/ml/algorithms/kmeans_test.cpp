#include "lockstep/ml/algorithms/kmeans.h"

#include <cmath>
#include <limits>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "lockstep/core/testing.h"
#include "lockstep/ml/algorithms/kmeans_start.h"
#include "lockstep/ml/own_rows.h"
#include "lockstep/ml/testing.h"

namespace lockstep::ml {
namespace {

using testing::blobs;
using testing::kRanksAndThreads;
using testing::with_table;

struct Fitted {
  at::Tensor centers;
  double inertia = 0;
  std::int64_t iterations = 0;
};

Fitted fitted(int ranks, const TableRows& rows, KMeansOptions options) {
  Fitted result;
  with_table(ranks, rows, [&](const Table& table) {
    KMeans kmeans(options);
    kmeans.fit(table);
    if (table.group().rank() == 0) result = {kmeans.cluster_centers(), kmeans.inertia(), kmeans.n_iter()};
  });
  return result;
}

/// By the definition, in torch.
Fitted by_definition(const at::Tensor& x, at::Tensor centers, const at::Tensor& weights, int iterations) {
  const auto nearest = [&] { return at::cdist(x, centers).argmin(1); };
  for (int i = 0; i < iterations; ++i) {
    const auto one_hot = at::one_hot(nearest(), centers.size(0)).to(at::kDouble) * weights.unsqueeze(1);
    centers = one_hot.t().mm(x) / one_hot.sum(0).unsqueeze(1);
  }
  const auto way = x - centers.index({nearest()});
  return {centers, (way.square().sum(1) * weights).sum().item<double>(), iterations};
}

TEST(KMeans, IsLloydsAlgorithm) {
  const auto x = blobs(20'000, 6, 5);
  for (const bool weighted : {false, true}) {
    const auto weights = weighted ? at::arange(20'000, at::kDouble).sin() + 1.5 : at::ones({20'000}, at::kDouble);
    const auto expected = by_definition(x, x.slice(0, 0, 7), weights, 12);
    const auto found = fitted(3, {x, {}, weighted ? weights : at::Tensor()},
                              {.n_clusters = 7, .centers = x.slice(0, 0, 7), .max_iter = 12, .tol = 0});
    EXPECT_EQ(found.iterations, 12);
    EXPECT_TRUE(at::allclose(found.centers, expected.centers, 1e-10, 1e-12));
    EXPECT_NEAR(found.inertia / expected.inertia, 1, 1e-12);
  }
}

class Start : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(KMeans, Start, ::testing::ValuesIn(KMeansStarts::instance().names()), [](const auto& start) {
  std::string name = start.param;
  std::erase_if(name, [](char c) { return std::isalnum(c) == 0; });
  return name + std::to_string(start.index);
});

TEST_P(Start, HasTheSameBitsOnAnyNumberOfRanksAndThreads) {
  const auto x = blobs(30'011, 5, 6);
  const auto weights = at::arange(30'011, at::kDouble).cos() + 2;
  for (const auto type : {at::kDouble, at::kFloat}) {
    for (const bool weighted : {false, true}) {
      Fitted first;
      for (const auto& [ranks, threads] : kRanksAndThreads) {
        const auto found = fitted(
            ranks, {x.to(type), {}, weighted ? weights : at::Tensor()},
            {.n_clusters = 9, .init = GetParam(), .n_init = 2, .max_iter = 15, .random_state = 3, .threads = threads});
        if (!first.centers.defined()) first = found;
        EXPECT_TRUE(at::equal(found.centers, first.centers)) << ranks << " ranks, " << threads << " threads";
        EXPECT_EQ(found.inertia, first.inertia);
        EXPECT_EQ(found.iterations, first.iterations);
      }
    }
  }
}

TEST_P(Start, FindsBlobsThatLieApart) {
  const auto x = at::cat({blobs(3000, 2, 1, 1, 0), blobs(3000, 2, 1, 2, 1000), blobs(3000, 2, 1, 3, -1000)});
  const auto found = fitted(2, {x}, {.n_clusters = 3, .init = GetParam(), .n_init = 5});
  EXPECT_LT(found.inertia, 3 * 9000);
}

TEST(KMeans, EndsWhenNothingChanges) {
  const auto found = fitted(2, {blobs(5000, 3, 4)}, {.n_clusters = 4, .tol = 0});
  EXPECT_LT(found.iterations, 100);
  // Another start from there stays there.
  const auto again = fitted(3, {blobs(5000, 3, 4)}, {.n_clusters = 4, .centers = found.centers, .tol = 0});
  EXPECT_LE(again.iterations, 2);
  EXPECT_NEAR(again.inertia / found.inertia, 1, 1e-12);
}

TEST(KMeans, TellsOfItsLastPassAndKeepsLabels) {
  // By the centroids' way, by labels that stay, and by the number of passes.
  for (const KMeansOptions& options : {KMeansOptions{.n_clusters = 6, .tol = 0.01},
                                       {.n_clusters = 6, .tol = 0},
                                       {.n_clusters = 6, .n_init = 2, .max_iter = 3, .tol = 0}}) {
    with_table(3, {blobs(20'000, 3, 9)}, [&](const Table& table) {
      KMeans kmeans(options);
      std::vector<KMeansPass> passes;
      kmeans.fit(table, [&](const KMeansPass& pass) { passes.push_back(pass); });
      for (std::size_t i = 0; i < passes.size(); ++i) {
        EXPECT_EQ(passes[i].last, i + 1 == passes.size() || passes[i + 1].start != passes[i].start);
      }
      EXPECT_TRUE(at::equal(kmeans.labels(), kmeans.predict(own_x(table))));
    });
  }
}

TEST(KMeans, MovesCentroidsWithoutRows) {
  const auto x = blobs(2000, 2, 3);
  auto centers = x.slice(0, 0, 4).clone();
  centers[2].fill_(1e6);
  centers[3].fill_(-1e6);
  const KMeansOptions options{.n_clusters = 4, .centers = centers};
  const auto moved = fitted(3, {x}, options);
  EXPECT_LT(moved.centers.abs().max().item<double>(), 100);
  auto keeping = options;
  keeping.empty = "keep";
  EXPECT_EQ(fitted(3, {x}, keeping).centers[2][0].item<double>(), 1e6);
  auto refusing = options;
  refusing.empty = "error";
  with_table(3, {x}, [&](const Table& table) {
    EXPECT_EQ(test::message_of([&] { KMeans(refusing).fit(table); }, Fault::Data),
              "centroid 2 has no rows; use fewer clusters, or --empty farthest");
  });
}

TEST(KMeans, LeavesACentroidWhereItWasOnceAllItsRowsAreTaken) {
  const auto x = at::cat({at::zeros({20}, at::kDouble), at::tensor({100.0, 101.0}, at::kDouble)}).view({-1, 1});
  at::Tensor weights = at::ones({22}, at::kDouble);
  weights[20] = 0.1;
  weights[21] = 0.2;  // 0.1 + 0.2 - 0.2 - 0.1 is not 0
  const auto centers = at::tensor({0.0, 50.0, 1000.0, 2000.0}, at::kDouble).view({-1, 1});
  with_table(2, {x, {}, weights}, [&](const Table& table) {
    KMeans kmeans({.n_clusters = 4, .centers = centers, .max_iter = 1, .tol = 0});
    kmeans.fit(table);
    const auto expected = at::tensor({0.0, 50.0, 101.0, 100.0}, at::kDouble).view({-1, 1});
    EXPECT_TRUE(at::allclose(kmeans.cluster_centers(), expected)) << kmeans.cluster_centers();
  });
}

TEST(KMeans, OfFewDifferentRowsEnds) {
  const auto x = at::arange(3, at::kDouble).repeat({1000}).view({-1, 1});
  for (const char* init : {"k-means++", "k-means||"}) {
    const auto found = fitted(2, {x}, {.n_clusters = 5, .init = init});
    EXPECT_EQ(found.inertia, 0) << init;
  }
}

TEST(KMeans, PredictsAndMeasures) {
  const auto x = blobs(4000, 3, 4);
  with_table(2, {x}, [&](const Table& table) {
    KMeans kmeans({.n_clusters = 4});
    kmeans.fit(table);
    const auto distances = at::cdist(x, kmeans.cluster_centers());
    EXPECT_TRUE(at::equal(kmeans.predict(x).to(at::kLong), distances.argmin(1)));
    EXPECT_TRUE(at::allclose(kmeans.transform(x), distances, 1e-9, 1e-9));
    EXPECT_NEAR(kmeans.score(table), -kmeans.inertia(), 1e-9 * kmeans.inertia());
  });
}

TEST(KMeans, SaysTheSameOfRowsByAnyNumberOfThreads) {
  const auto x = blobs(10'007, 5, 4);
  with_table(1, {x}, [&](const Table& table) {
    KMeans kmeans({.n_clusters = 7});
    kmeans.fit(table);
    const int before = at::get_num_threads();
    for (const auto type : {at::kDouble, at::kFloat}) {
      at::set_num_threads(1);
      const auto rows = x.to(type), labels = kmeans.predict(rows), distances = kmeans.transform(rows);
      for (const int threads : {2, 5}) {
        at::set_num_threads(threads);
        EXPECT_TRUE(at::equal(kmeans.predict(rows), labels)) << threads << " threads";
        EXPECT_TRUE(at::equal(kmeans.transform(rows), distances)) << threads << " threads";
      }
    }
    at::set_num_threads(before);
  });
}

TEST(KMeans, RefusesWhatMakesNoSense) {
  const auto refusal = [](const KMeansOptions& options) { return test::message_of([&] { KMeans kmeans(options); }); };
  EXPECT_EQ(refusal({.n_clusters = 0}), "n_clusters = 0: it is from 1 on");
  EXPECT_EQ(refusal({.init = "k-means"}), "unknown init 'k-means'; did you mean 'k-means++'?");
  EXPECT_EQ(refusal({.tol = -1}), "tol = -1: it is from 0 on");
  EXPECT_EQ(refusal({.empty = "drop"}), "empty = 'drop': it is one of farthest, keep, error");
  auto x = blobs(20'000, 2, 3);
  with_table(3, {x}, [&](const Table& table) {
    EXPECT_EQ(test::message_of([&] { KMeans({.n_clusters = 30'000}).fit(table); }),
              "20000 rows for 30000 clusters; use fewer clusters");
    EXPECT_EQ(test::message_of([&] { KMeans({.n_clusters = 3, .centers = at::zeros({3, 5})}).fit(table); }),
              "centers to begin with are [3, 5], and 3 clusters of 2 columns are wanted");
  });
  with_table(3, {x * 1e160}, [&](const Table& table) {
    EXPECT_EQ(test::message_of([&] { KMeans({.n_clusters = 3}).fit(table); }, Fault::Data),
              "squares of the values are too large; scale the columns");
  });
  x[9000][1] = std::numeric_limits<double>::quiet_NaN();
  for (const char* init : {"k-means++", "random", "k-means||"}) {
    with_table(3, {x}, [&](const Table& table) {
      EXPECT_EQ(test::message_of([&] { KMeans({.n_clusters = 3, .init = init}).fit(table); }, Fault::Data),
                "row 9000, column 1 is no finite number; clean the data, or use --missing mean or drop");
    });
  }
}

}  // namespace
}  // namespace lockstep::ml
