// Rows of weight 0 may hold anything, such as 1e8 for what is missing: models are those of the table without them. As
// in scikit-learn they count for two numbers: the tolerance of K-means and the smoothing of Gaussian naive Bayes.
#include <gtest/gtest.h>

#include "lockstep/ml/algorithms/basic_statistics.h"
#include "lockstep/ml/algorithms/covariance.h"
#include "lockstep/ml/algorithms/dbscan.h"
#include "lockstep/ml/algorithms/elastic_net.h"
#include "lockstep/ml/algorithms/gaussian_nb.h"
#include "lockstep/ml/algorithms/kmeans.h"
#include "lockstep/ml/algorithms/linear_regression.h"
#include "lockstep/ml/algorithms/logistic_regression.h"
#include "lockstep/ml/algorithms/minibatch_kmeans.h"
#include "lockstep/ml/algorithms/multinomial_nb.h"
#include "lockstep/ml/algorithms/pca.h"
#include "lockstep/ml/algorithms/svd.h"
#include "lockstep/ml/testing.h"

namespace lockstep::ml {
namespace {

using testing::blobs;
using testing::with_table;
using Learned = std::vector<at::Tensor>;

constexpr std::int64_t kRows = 10'000, kColumns = 4;

TableRows weighted_rows(const at::Tensor& x, const at::Tensor& targets) {
  // Quarters, whose sums are exact in any order.
  return {.x = x, .targets = targets, .weights = (at::arange(kRows, at::kDouble) % 7 + 2) / 4};
}

/// The same behind `count` rows that weigh nothing, of values and targets that belong to none of them.
TableRows behind(std::int64_t count, const TableRows& rows, double value, double target) {
  const auto with = [&](const at::Tensor& own, double filled) {
    auto sizes = own.sizes().vec();
    sizes.front() = count;
    return at::cat({at::full(sizes, filled, at::kDouble), own});
  };
  return {.x = with(rows.x, value), .targets = with(rows.targets, target), .weights = with(rows.weights, 0)};
}

Learned learned_of(int ranks, const TableRows& rows, const std::function<Learned(const Table&)>& learn) {
  Learned learned;
  with_table(ranks, rows, [&](const Table& table) {
    const Learned own = learn(table);
    if (table.group().rank() == 0) learned = own;
  });
  return learned;
}

void expect_no_trace(const TableRows& rows, double value, double target,
                     const std::function<Learned(const Table&)>& learn) {
  const Learned expected = learned_of(1, rows, learn);
  // Some of the first block, and more than all of it.
  for (const std::int64_t count : {1, 1000, 9000}) {
    for (const int ranks : {1, 3}) {
      const Learned found = learned_of(ranks, behind(count, rows, value, target), learn);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const double off = (found[i] - expected[i]).norm().item<double>() / expected[i].norm().item<double>();
        EXPECT_LE(off, 1e-10) << "number " << i << ", " << count << " rows of " << value << ", " << ranks << " ranks";
      }
    }
  }
}

void expect_no_trace(const TableRows& rows, const std::function<Learned(const Table&)>& learn) {
  // Beside the smaller one columns still seem to differ.
  for (const double value : {1e6, 1e8}) expect_no_trace(rows, value, value, learn);
}

TableRows regression_rows() {
  const at::Tensor x = blobs(kRows, kColumns, 3);
  return weighted_rows(x, x.select(1, 0) * 2 - x.select(1, 2) + x.select(1, 1).sin());
}

TableRows class_rows(const at::Tensor& x) {
  return weighted_rows(x, (x.select(1, 0) + 2 * x.select(1, 1).sin()).gt(x.select(1, 2)).to(at::kDouble));
}

at::Tensor scalar(double value) { return at::full({1}, value, at::kDouble); }

TEST(WeightlessRows, LeaveNoTraceInStatistics) {
  expect_no_trace(regression_rows(), [](const Table& table) {
    BasicStatistics statistics;
    statistics.fit(table);
    EmpiricalCovariance covariance;
    covariance.fit(table);
    return Learned{statistics.mean(), statistics.variance(), statistics.max(), covariance.location(),
                   covariance.covariance()};
  });
}

TEST(WeightlessRows, LeaveNoTraceInLinearModels) {
  expect_no_trace(regression_rows(), [](const Table& table) {
    Learned learned;
    for (const char* solver : {"gram", "qr"}) {
      LinearRegression regression({.alpha = 0.1, .solver = solver});
      regression.fit(table);
      learned.insert(learned.end(),
                     {regression.model().coef, regression.model().intercept, scalar(regression.score(table))});
    }
    ElasticNet net({.alpha = 0.1, .tol = 1e-14});
    net.fit(table);
    learned.insert(learned.end(), {net.model().coef, net.model().intercept});
    return learned;
  });
}

TEST(WeightlessRows, LeaveNoTraceInComponents) {
  expect_no_trace(regression_rows(), [](const Table& table) {
    Learned learned;
    for (const char* solver : {"covariance_eigh", "full", "randomized"}) {
      PCA pca({.n_components = 3, .svd_solver = solver, .n_oversamples = 1});
      pca.fit(table);
      learned.insert(learned.end(), {pca.mean(), pca.components(), pca.explained_variance(), scalar(pca.score(table))});
    }
    TruncatedSVD truncated({.n_components = 2, .algorithm = "exact"});
    truncated.fit(table);
    SVD svd;
    svd.fit(table);
    learned.insert(learned.end(), {truncated.components(), truncated.explained_variance(), svd.vh()});
    return learned;
  });
}

TEST(WeightlessRows, LeaveNoTraceInLogisticRegression) {
  for (const double value : {1e6, 1e8}) {
    expect_no_trace(class_rows(blobs(kRows, kColumns, 3)), value, 1, [](const Table& table) {
      Learned learned;
      for (const char* solver : {"newton-cholesky", "lbfgs"}) {
        LogisticRegression regression({.tol = 1e-13, .max_iter = 1000, .solver = solver});
        regression.fit(table);
        learned.insert(learned.end(), {regression.model().coef, regression.model().intercept});
      }
      return learned;
    });
  }
}

TEST(WeightlessRows, LeaveNoTraceInNaiveBayes) {
  const at::Tensor x = blobs(kRows, kColumns, 3);
  for (const double value : {1e8, 1e9}) {
    expect_no_trace(class_rows(x), value, 1, [](const Table& table) {
      GaussianNB bayes({.var_smoothing = 0});
      bayes.fit(table);
      return Learned{bayes.theta(), bayes.var(), bayes.class_prior()};
    });
  }
  expect_no_trace(class_rows(x.abs()), 1e8, 1, [](const Table& table) {
    MultinomialNB bayes;
    bayes.fit(table);
    return Learned{bayes.feature_log_prob(), bayes.class_log_prior()};
  });
}

TEST(WeightlessRows, LeaveNoTraceInClusters) {
  const auto rows = regression_rows();
  const at::Tensor centers = rows.x.slice(0, 0, 5).clone();
  expect_no_trace(rows, [&](const Table& table) {
    KMeans kmeans({.n_clusters = 5, .centers = centers, .tol = 0});
    kmeans.fit(table);
    MiniBatchKMeans batches({.n_clusters = 5, .centers = centers});
    for (int batch = 0; batch < 3; ++batch) batches.partial_fit(table);
    return Learned{kmeans.cluster_centers(), scalar(kmeans.inertia()), batches.cluster_centers()};
  });
}

TEST(WeightlessRows, LeaveNoTraceInDenseClusters) {
  const auto rows = weighted_rows(blobs(kRows, 2, 3), at::zeros({kRows, 1}, at::kDouble));
  const auto labels_of = [](const TableRows& all) {
    at::Tensor labels;
    with_table(1, all, [&](const Table& table) {
      DBSCAN dbscan({.eps = 0.1});
      dbscan.fit(table);
      labels = dbscan.labels();
    });
    return labels;
  };
  EXPECT_TRUE(at::equal(labels_of(behind(1000, rows, 1e8, 0)).slice(0, 1000), labels_of(rows)));
}

}  // namespace
}  // namespace lockstep::ml
