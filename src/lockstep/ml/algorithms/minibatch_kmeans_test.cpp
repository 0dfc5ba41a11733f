#include "lockstep/ml/algorithms/minibatch_kmeans.h"

#include <limits>

#include <gtest/gtest.h>

#include "lockstep/core/testing.h"
#include "lockstep/ml/algorithms/kmeans.h"
#include "lockstep/ml/testing.h"

namespace lockstep::ml {
namespace {

using testing::blobs;
using testing::kRanksAndThreads;
using testing::with_table;

struct Fitted {
  at::Tensor centers;
  double inertia = 0;
  std::int64_t steps = 0;
};

Fitted fitted(int ranks, const TableRows& rows, const MiniBatchKMeansOptions& options) {
  Fitted result;
  with_table(ranks, rows, [&](const Table& table) {
    MiniBatchKMeans kmeans(options);
    kmeans.fit(table);
    if (table.group().rank() == 0) result = {kmeans.cluster_centers(), kmeans.inertia(), kmeans.n_steps()};
  });
  return result;
}

TEST(MiniBatchKMeans, HasTheSameBitsOnAnyNumberOfRanksAndThreads) {
  const auto x = blobs(30'011, 5, 6);
  const auto weights = at::arange(30'011, at::kDouble).cos() + 2;
  // The second has batches of several blocks, the third centroids that are moved elsewhere.
  const MiniBatchKMeansOptions all[] = {
      {.n_clusters = 9, .n_init = 2, .random_state = 3},
      {.n_clusters = 4, .init = "k-means||", .batch_size = 20'000, .max_iter = 5, .tol = 1e-3},
      {.n_clusters = 12, .init = "random", .batch_size = 100, .max_iter = 2, .reassignment_ratio = 0.5}};
  for (const auto& one : all) {
    for (const auto type : {at::kDouble, at::kFloat}) {
      for (const bool weighted : {false, true}) {
        Fitted first;
        for (const auto& [ranks, threads] : kRanksAndThreads) {
          auto options = one;
          options.threads = threads;
          const auto found = fitted(ranks, {x.to(type), {}, weighted ? weights : at::Tensor()}, options);
          if (!first.centers.defined()) first = found;
          EXPECT_TRUE(at::equal(found.centers, first.centers)) << ranks << " ranks, " << threads << " threads";
          EXPECT_EQ(found.inertia, first.inertia);
          EXPECT_EQ(found.steps, first.steps);
        }
      }
    }
  }
}

TEST(MiniBatchKMeans, ComesNearToWhatAllRowsGive) {
  const auto x = blobs(20'000, 4, 8, 5);
  double all = 0;
  with_table(2, {x}, [&](const Table& table) {
    KMeans kmeans({.n_clusters = 8, .n_init = 10});
    kmeans.fit(table);
    if (table.group().rank() == 0) all = kmeans.inertia();
  });
  double best = std::numeric_limits<double>::infinity();
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    best = std::min(best, fitted(2, {x}, {.n_clusters = 8, .random_state = seed}).inertia);
  }
  EXPECT_LT(best, 1.02 * all);
  EXPECT_GE(best, all * (1 - 1e-3));
}

TEST(MiniBatchKMeans, OfOneBatchIsTheMeanOfItsRows) {
  // All rows as a batch, centroids that nothing has moved yet: they go to the means, as in a pass of K-means.
  const auto x = blobs(3000, 3, 4);
  const auto weights = at::arange(3000, at::kDouble).sin() + 1.5;
  const auto centers = x.slice(0, 0, 4);
  with_table(3, {x, {}, weights}, [&](const Table& table) {
    KMeans once({.n_clusters = 4, .centers = centers, .max_iter = 1});
    once.fit(table);
    MiniBatchKMeans kmeans({.n_clusters = 4, .centers = centers, .reassignment_ratio = 0});
    kmeans.partial_fit(table);
    EXPECT_TRUE(at::allclose(kmeans.cluster_centers(), once.cluster_centers(), 1e-12, 1e-12));
    EXPECT_NEAR(kmeans.inertia() / once.inertia(), 1, 1e-12);
    EXPECT_EQ(kmeans.n_steps(), 1);
  });
}

TEST(MiniBatchKMeans, GoesOnWithBatchesThatCome) {
  // Two batches whose rows do not change their nearest centroid: the centroids are the means over both.
  const auto near = at::tensor({0.0, 1.0, 100.0, 101.0}, at::kDouble).view({-1, 1});
  const auto more = at::tensor({2.0, 5.0, 102.0}, at::kDouble).view({-1, 1});
  with_table(1, {near}, [&](const Table& first) {
    with_table(1, {more, {}, at::tensor({1.0, 2.0, 1.0}, at::kDouble)}, [&](const Table& second) {
      MiniBatchKMeans kmeans({.n_clusters = 2, .centers = at::tensor({0.0, 100.0}, at::kDouble).view({-1, 1})});
      kmeans.partial_fit(first);
      kmeans.partial_fit(second);
      EXPECT_EQ(kmeans.n_steps(), 2);
      EXPECT_NEAR(kmeans.cluster_centers()[0][0].item<double>(), 13.0 / 5, 1e-12);
      EXPECT_NEAR(kmeans.cluster_centers()[1][0].item<double>(), 101, 1e-12);
    });
  });
}

TEST(MiniBatchKMeans, ConsidersWeights) {
  // Rows of weight 0 are as if they were not there.
  const auto x = at::cat({blobs(2000, 2, 1, 1, 0), blobs(2000, 2, 1, 2, 500), blobs(2000, 2, 1, 3, -500)});
  const auto weights = at::cat({at::ones({4000}, at::kDouble), at::zeros({2000}, at::kDouble)});
  const auto found = fitted(2, {x, {}, weights}, {.n_clusters = 2});
  EXPECT_GT(found.centers.min().item<double>(), -50);
  EXPECT_LT(found.inertia, 3 * 4000);
}

TEST(MiniBatchKMeans, BeginsAmongTheFewRowsThatWeighSomething) {
  // One in a hundred, of four places; others lie far away.
  const auto places = at::arange(4, at::kDouble).repeat({25}).unsqueeze(1) * 10;
  const auto x = at::full({10'000, 1}, 1e6, at::kDouble);
  x.slice(0, 0, 10'000, 100).copy_(places);
  auto weights = at::zeros({10'000}, at::kDouble);
  weights.slice(0, 0, 10'000, 100).fill_(1);
  for (const char* init : {"random", "k-means++", "k-means||"}) {
    const auto found = fitted(2, {x, {}, weights}, {.n_clusters = 4, .init = init, .batch_size = 100});
    EXPECT_LT(found.centers.max().item<double>(), 31) << init;
    // Of drawn rows some may be the same.
    if (std::string(init) != "random") {
      EXPECT_NEAR(found.inertia, 0, 1e-9) << init;
    }
  }
}

TEST(MiniBatchKMeans, MovesCentroidsWithoutRowsToRowsThatWeighSomething) {
  const auto x = at::cat({blobs(100, 2, 3), at::full({5000, 2}, 1e8, at::kDouble)});
  const auto weights = at::cat({at::ones({100}, at::kDouble), at::zeros({5000}, at::kDouble)});
  auto centers = x.slice(0, 0, 4).clone();
  centers[2].fill_(1e6);
  with_table(2, {x, {}, weights}, [&](const Table& table) {
    MiniBatchKMeans kmeans({.n_clusters = 4, .centers = centers});
    kmeans.partial_fit(table);
    EXPECT_LT(kmeans.cluster_centers().abs().max().item<double>(), 100);
  });
}

TEST(MiniBatchKMeans, EndsWhenNothingImproves) {
  const auto x = blobs(10'000, 3, 4);
  const std::int64_t all = 100 * 10'000 / 1024;
  EXPECT_LT(fitted(1, {x}, {.n_clusters = 4}).steps, all / 2);
  EXPECT_EQ(fitted(1, {x}, {.n_clusters = 4, .max_no_improvement = 0}).steps, all);
  EXPECT_EQ(fitted(1, {x}, {.n_clusters = 4, .tol = 1e6}).steps, 2);
  std::vector<MiniBatchStep> seen;
  with_table(1, {x}, [&](const Table& table) {
    MiniBatchKMeans({.n_clusters = 4}).fit(table, [&](const MiniBatchStep& step) { seen.push_back(step); });
  });
  ASSERT_FALSE(seen.empty());
  const std::int64_t no_end = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(fitted(1, {x}, {.n_clusters = 4, .max_iter = no_end}).steps, static_cast<std::int64_t>(seen.size()));
  EXPECT_EQ(seen.back().steps, all);
  EXPECT_EQ(seen.back().step, static_cast<std::int64_t>(seen.size()));
  EXPECT_NEAR(seen.back().smoothed / seen.back().inertia, 1, 0.5);
}

TEST(MiniBatchKMeans, MovesCentroidsWithoutRows) {
  const auto x = blobs(5000, 2, 3);
  auto centers = x.slice(0, 0, 4).clone();
  centers[2].fill_(1e6);
  const auto moved = fitted(2, {x}, {.n_clusters = 4, .centers = centers});
  EXPECT_LT(moved.centers.abs().max().item<double>(), 100);
  const auto kept = fitted(2, {x}, {.n_clusters = 4, .centers = centers, .reassignment_ratio = 0});
  EXPECT_EQ(kept.centers[2][0].item<double>(), 1e6);
}

TEST(MiniBatchKMeans, OfFewDifferentRowsEnds) {
  const auto x = at::arange(3, at::kDouble).repeat({1000}).view({-1, 1});
  EXPECT_NEAR(fitted(2, {x}, {.n_clusters = 5}).inertia, 0, 1e-20);
}

TEST(MiniBatchKMeans, IsReadFromItsFile) {
  const test::TemporaryFolder folder;
  const auto x = blobs(3000, 3, 4);
  with_table(1, {x, {}, {}, {"a", "b", "c"}}, [&](const Table& table) {
    MiniBatchKMeans kmeans({.n_clusters = 4});
    kmeans.fit(table);
    write_model(folder / "model", kmeans.file(table));
    const auto file = read_model(folder / "model");
    EXPECT_EQ(file.parameters["batch_size"], 1024);
    const auto read = KMeansModel::from(file);
    EXPECT_TRUE(at::equal(read.predict(x), kmeans.predict(x)));
    EXPECT_EQ(read.inertia(), kmeans.inertia());
    EXPECT_EQ(read.n_iter(), kmeans.n_iter());
  });
}

TEST(MiniBatchKMeans, RefusesWhatMakesNoSense) {
  const auto refusal = [](const MiniBatchKMeansOptions& options) {
    return test::message_of([&] { MiniBatchKMeans kmeans(options); });
  };
  EXPECT_EQ(refusal({.batch_size = 0}), "batch_size = 0: it is from 1 on");
  EXPECT_EQ(refusal({.init = "k-means"}), "unknown init 'k-means'; did you mean 'k-means++'?");
  EXPECT_EQ(refusal({.reassignment_ratio = -1}), "reassignment_ratio = -1: it is from 0 on");
  EXPECT_EQ(refusal({.n_clusters = 9, .init_size = 5}), "init_size = 5: a start needs at least n_clusters = 9 rows");
  auto x = blobs(20'000, 2, 3);
  with_table(3, {x}, [&](const Table& table) {
    EXPECT_EQ(test::message_of([&] { MiniBatchKMeans({.n_clusters = 30'000}).fit(table); }),
              "20000 rows for 30000 clusters; use fewer clusters");
    MiniBatchKMeans kmeans;
    kmeans.fit(table);
    const auto other = make_table(table.group(), {.x = at::zeros({10, 3})});
    EXPECT_EQ(test::message_of([&] { kmeans.partial_fit(*other); }), "a batch of 3 columns, where those before had 2");
  });
  x[9000][1] = std::numeric_limits<double>::quiet_NaN();
  for (const bool partial : {false, true}) {
    with_table(3, {x}, [&](const Table& table) {
      MiniBatchKMeans kmeans({.n_clusters = 3});
      EXPECT_EQ(test::message_of([&] { partial ? kmeans.partial_fit(table) : kmeans.fit(table); }, Fault::Data),
                "row 9000, column 1 is no finite number; clean the data, or use --missing mean or drop");
    });
  }
}

}  // namespace
}  // namespace lockstep::ml
