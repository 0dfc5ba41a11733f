#include "bench/ml_case.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/text.h"
#include "lockstep/ml/algorithms/basic_statistics.h"
#include "lockstep/ml/algorithms/covariance.h"
#include "lockstep/ml/algorithms/dbscan.h"
#include "lockstep/ml/algorithms/elastic_net.h"
#include "lockstep/ml/algorithms/gaussian_nb.h"
#include "lockstep/ml/algorithms/kmeans.h"
#include "lockstep/ml/algorithms/linear_regression.h"
#include "lockstep/ml/algorithms/logistic_regression.h"
#include "lockstep/ml/algorithms/minibatch_kmeans.h"
#include "lockstep/ml/algorithms/neighbors.h"
#include "lockstep/ml/algorithms/pca.h"
#include "lockstep/ml/algorithms/svd.h"

namespace lockstep::apps {
namespace {

using Fit = std::function<MlFitted()>;
using Targets = MlData::Targets;

constexpr std::int64_t kIterations = 20;

at::Tensor first_rows(const ml::Table& table, std::int64_t count) {
  std::vector<std::int64_t> first(static_cast<std::size_t>(count));
  std::iota(first.begin(), first.end(), std::int64_t{0});
  return ml::rows_at(table, first);
}

/// Beginning at the first rows, like everybody here.
std::function<Fit(const ml::Table&)> kmeans(std::int64_t clusters) {
  return [clusters](const ml::Table& table) -> Fit {
    const at::Tensor start = first_rows(table, clusters);
    return [&table, clusters, start] {
      ml::KMeans kmeans({.n_clusters = clusters, .centers = start, .max_iter = kIterations, .tol = 0});
      kmeans.fit(table);
      const auto passes = static_cast<double>(kmeans.n_iter());
      return MlFitted{{{"inertia", kmeans.inertia()}, {"iterations", passes}}, passes};
    };
  };
}

Fit linear_regression(const ml::Table& table) {
  return [&table] {
    ml::LinearRegression regression;
    regression.fit(table);
    const auto& [coef, intercept] = regression.model();
    return MlFitted{{{"coef", coef[0][-1].item<double>()}, {"intercept", intercept[0].item<double>()}}};
  };
}

Fit covariance(const ml::Table& table) {
  return [&table] {
    ml::EmpiricalCovariance empirical;
    empirical.fit(table);
    const at::Tensor& covariance = empirical.covariance();
    return MlFitted{{{"covariance", covariance[0][1].item<double>()}, {"variance", covariance[-1][-1].item<double>()}}};
  };
}

/// All components.
Fit pca(const ml::Table& table) {
  return [&table] {
    ml::PCA pca;
    pca.fit(table);
    const at::Tensor& variance = pca.explained_variance();
    return MlFitted{{{"first", variance[0].item<double>()}, {"last", variance[-1].item<double>()}}};
  };
}

/// A sweep where it starts, and one where each iteration ends.
Fit logistic_regression(const ml::Table& table) {
  return [&table] {
    ml::LogisticRegression regression;
    regression.fit(table);
    return MlFitted{{{"objective", regression.objective()}}, static_cast<double>(regression.n_iter() + 1)};
  };
}

Fit statistics(const ml::Table& table) {
  return [&table] {
    ml::BasicStatistics statistics;
    statistics.fit(table);
    return MlFitted{{{"variance", statistics.variance()[-1].item<double>()}}};
  };
}

Fit lasso(const ml::Table& table) {
  return [&table] {
    ml::ElasticNet net({.alpha = 0.1, .l1_ratio = 1});
    net.fit(table);
    return MlFitted{{{"intercept", net.model().intercept[0].item<double>()}}};
  };
}

/// By the triangular factor of the rows.
Fit singular_values(const ml::Table& table) {
  return [&table] {
    ml::SVD svd;
    svd.fit(table);
    return MlFitted{{{"first", svd.singular_values()[0].item<double>()}}};
  };
}

/// Means first, then the sweeps of the subspace, and one for the factor of the rows in it.
Fit random_singular_values(const ml::Table& table) {
  return [&table] {
    const ml::TruncatedSVDOptions options;
    ml::TruncatedSVD svd(options);
    svd.fit(table);
    return MlFitted{{{"first", svd.singular_values()[0].item<double>()}}, static_cast<double>(options.n_iter + 3)};
  };
}

Fit naive_bayes(const ml::Table& table) {
  return [&table] {
    ml::GaussianNB bayes;
    bayes.fit(table);
    return MlFitted{{{"variance", bayes.var()[0][-1].item<double>()}}};
  };
}

/// Batches, and a sweep for the inertia of all rows.
Fit batches(const ml::Table& table) {
  constexpr std::int64_t kClusters = 10;
  const at::Tensor start = first_rows(table, kClusters);
  return [&table, start] {
    const ml::MiniBatchKMeansOptions options{.n_clusters = kClusters, .centers = start};
    ml::MiniBatchKMeans kmeans(options);
    kmeans.fit(table);
    const double drawn = static_cast<double>(kmeans.n_steps() * options.batch_size);
    return MlFitted{{{"inertia", kmeans.inertia()}}, 1 + drawn / static_cast<double>(table.rows())};
  };
}

/// Asked for 64 rows of rank 0, by brute force.
Fit neighbors(const ml::Table& table) {
  return [&table] {
    ml::NearestNeighbors nearest;
    nearest.fit({std::shared_ptr<const ml::Table>(), &table});  // it outlives this
    const at::Tensor all = first_rows(table, 64);
    const auto found = nearest.kneighbors(table.group().rank() == 0 ? all : all.slice(0, 0, 0));
    return MlFitted{{{"distance", found.distances.sum().item<double>()}}};
  };
}

Fit density(const ml::Table& table) {
  return [&table] {
    ml::DBSCAN dbscan({.eps = 3});
    dbscan.fit(table);
    return MlFitted{{{"clusters", static_cast<double>(dbscan.n_clusters())}}};
  };
}

std::vector<MlPeer> with_daal4py_ranks() { return {{"sklearn"}, {"sklearnex"}, {"daal4py", /*over_ranks=*/true}}; }

MlCase kmeans_case(const std::string& name, std::int64_t rows, std::int64_t columns, std::int64_t clusters,
                   at::ScalarType type) {
  return {.name = name,
          .algorithm = "kmeans",
          .arguments = {"--clusters", std::to_string(clusters), "--iterations", std::to_string(kIterations)},
          .data = {.columns = columns, .blobs = clusters, .type = type},
          .rows = rows,
          .peers = with_daal4py_ranks(),
          .prepare = kmeans(clusters)};
}

/// Ours alone, beside reading the rows.
MlCase floor_case(const std::string& name, const MlData& data, std::int64_t rows,
                  std::function<Fit(const ml::Table&)> prepare) {
  return {.name = name,
          .algorithm = name,
          .data = data,
          .takes_targets = data.targets != Targets::None && name != "moments",
          .rows = rows,
          .peers = {},
          .prepare = std::move(prepare)};
}

const std::vector<MlCase>& cases() {
  static const std::vector<MlCase> all = {
      kmeans_case("kmeans", 2'000'000, 20, 10, at::kDouble),
      kmeans_case("kmeans_f32", 2'000'000, 20, 10, at::kFloat),
      kmeans_case("kmeans_wide", 1'000'000, 50, 100, at::kFloat),
      kmeans_case("kmeans_wide_f64", 1'000'000, 50, 100, at::kDouble),
      {.name = "linreg",
       .algorithm = "linreg",
       .data = {.targets = Targets::Real},
       .takes_targets = true,
       .rows = 5'000'000,
       .peers = with_daal4py_ranks(),
       .prepare = linear_regression},
      {.name = "covariance",
       .algorithm = "covariance",
       .data = {.targets = Targets::Real},
       .rows = 5'000'000,
       .peers = {{"sklearn"}, {"sklearnex"}, {"daal4py"}},
       .prepare = covariance},
      {.name = "pca",
       .algorithm = "pca",
       .data = {.targets = Targets::Real},
       .rows = 5'000'000,
       .peers = {{"sklearn"}, {"sklearnex"}, {"daal4py"}},
       .prepare = pca},
      {.name = "logistic",
       .algorithm = "logistic",
       .data = {.targets = Targets::Binary},
       .takes_targets = true,
       .rows = 1'000'000,
       .peers = {{"sklearn"},
                 {"sklearn", /*over_ranks=*/false, "newton-cholesky", {"--solver", "newton-cholesky"}},
                 {"sklearnex"}},
       .prepare = logistic_regression},
      floor_case("moments", {.targets = Targets::Real}, 5'000'000, statistics),
      floor_case("lasso", {.targets = Targets::Real}, 5'000'000, lasso),
      floor_case("svd", {.targets = Targets::Real}, 5'000'000, singular_values),
      floor_case("svd_random", {.targets = Targets::Real}, 5'000'000, random_singular_values),
      floor_case("naivebayes", {.targets = Targets::Binary}, 1'000'000, naive_bayes),
      floor_case("minibatch", {.blobs = 10}, 2'000'000, batches),
      floor_case("knn", {.blobs = 10}, 2'000'000, neighbors),
      floor_case("dbscan", {.blobs = 10}, 20'000, density),
  };
  return all;
}

}  // namespace

std::int64_t MlCase::bytes(std::int64_t rows_read) const {
  const auto of_values = data.columns * static_cast<std::int64_t>(c10::elementSize(data.type));
  const auto of_targets = takes_targets ? static_cast<std::int64_t>(sizeof(double)) : 0;
  return rows_read * (of_values + of_targets);
}

std::vector<std::string> ml_cases_with_peers() {
  std::vector<std::string> names;
  for (const auto& one : cases()) {
    if (!one.peers.empty()) names.push_back(one.name);
  }
  return names;
}

const std::vector<std::string>& ml_case_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> result;
    for (const auto& one : cases()) result.push_back(one.name);
    return result;
  }();
  return names;
}

const MlCase& ml_case(const std::string& name) {
  const auto found = std::find_if(cases().begin(), cases().end(), [&](const auto& one) { return one.name == name; });
  if (found == cases().end()) {
    fail(Fault::Usage, fmt::format("no case '{}' to measure{}", name, proposal(name, ml_case_names())));
  }
  return *found;
}

}  // namespace lockstep::apps
