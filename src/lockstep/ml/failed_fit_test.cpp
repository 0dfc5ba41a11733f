// A fit that fails and whose Error is caught leaves the model as it was.
#include <limits>

#include <gtest/gtest.h>

#include "lockstep/core/testing.h"
#include "lockstep/ml/algorithms/basic_statistics.h"
#include "lockstep/ml/algorithms/gaussian_nb.h"
#include "lockstep/ml/algorithms/kmeans.h"
#include "lockstep/ml/algorithms/logistic_regression.h"
#include "lockstep/ml/algorithms/minibatch_kmeans.h"
#include "lockstep/ml/algorithms/multinomial_nb.h"
#include "lockstep/ml/algorithms/neighbors.h"
#include "lockstep/ml/algorithms/pca.h"
#include "lockstep/ml/testing.h"

namespace lockstep::ml {
namespace {

using testing::blobs;
using testing::part_of;

/// `body` with a good table and one with other classes and a gap, on two ranks.
void with_both(const std::function<void(const std::shared_ptr<const Table>& good,
                                        const std::shared_ptr<const Table>& bad, const at::Tensor& x)>& body) {
  const at::Tensor x = blobs(9000, 3, 2).abs(), labels = (at::arange(9000, at::kDouble) % 2);
  at::Tensor gap = blobs(9000, 3, 2, 2).abs();
  gap[8999][1] = std::numeric_limits<double>::quiet_NaN();
  comm::testing::on_ranks({2}, [&](comm::Communicator& group) {
    const auto own = [&](const at::Tensor& whole) { return part_of(whole, group.rank(), group.size()); };
    body(make_table(group, {.x = own(x), .targets = own(labels), .target_names = {"one"}}),
         make_table(group,
                    {.x = own(gap), .targets = own(at::arange(9000, at::kDouble) % 5 + 7), .target_names = {"other"}}),
         x.slice(0, 0, 100));
  });
}

/// What `say` says after a fit to the good table, and again after one that failed.
template <class Estimator, class Say>
void expect_as_before(Estimator estimator, const Say& say) {
  with_both([&](const auto& good, const auto& bad, const at::Tensor& x) {
    Estimator own = estimator;
    const auto fit = [&](const std::shared_ptr<const Table>& table) {
      if constexpr (requires { own.fit(table); })
        own.fit(table);
      else
        own.fit(*table);
    };
    fit(good);
    const std::vector<at::Tensor> before = say(own, x);
    EXPECT_NE(test::message_of([&] { fit(bad); }, Fault::Data), "");
    const std::vector<at::Tensor> after = say(own, x);
    for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(at::equal(after[i], before[i])) << "number " << i;
  });
}

using Said = std::vector<at::Tensor>;

TEST(FailedFit, LeavesNeighboursAsTheyWere) {
  expect_as_before(KNeighborsClassifier({.n_neighbors = 3}), [](const KNeighborsClassifier& knn, const at::Tensor& x) {
    return Said{knn.predict(x), knn.predict_proba(x)};
  });
  expect_as_before(KNeighborsRegressor({.n_neighbors = 3}), [](const KNeighborsRegressor& knn, const at::Tensor& x) {
    EXPECT_EQ(knn.target_names(), std::vector<std::string>{"one"});
    return Said{knn.predict(x)};
  });
}

TEST(FailedFit, LeavesClassifiersAsTheyWere) {
  const auto say = [](const auto& model, const at::Tensor& x) {
    return Said{model.predict(x), model.predict_proba(x)};
  };
  expect_as_before(LogisticRegression(), say);
  expect_as_before(GaussianNB(), say);
  expect_as_before(MultinomialNB(), say);
}

TEST(FailedFit, LeavesCentroidsAsTheyWere) {
  const auto inertia_of = [](const KMeansModel& model) { return at::full({1}, model.inertia(), at::kDouble); };
  expect_as_before(KMeans({.n_clusters = 3}), [&](const KMeans& kmeans, const at::Tensor& x) {
    return Said{kmeans.cluster_centers(), kmeans.labels(), inertia_of(kmeans), kmeans.predict(x)};
  });
  expect_as_before(MiniBatchKMeans({.n_clusters = 3}), [&](const MiniBatchKMeans& kmeans, const at::Tensor& x) {
    return Said{kmeans.cluster_centers(), inertia_of(kmeans), at::full({1}, kmeans.n_steps()), kmeans.predict(x)};
  });
}

TEST(FailedFit, LeavesStatisticsAsTheyWere) {
  expect_as_before(BasicStatistics(), [](const BasicStatistics& statistics, const at::Tensor&) {
    return Said{statistics.mean(), statistics.variance()};
  });
  expect_as_before(PCA(), [](const PCA& pca, const at::Tensor& x) {
    EXPECT_EQ(pca.svd_solver(), "covariance_eigh");
    return Said{pca.transform(x), pca.explained_variance()};
  });
}

}  // namespace
}  // namespace lockstep::ml
