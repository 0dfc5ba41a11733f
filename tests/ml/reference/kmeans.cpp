#include "lockstep/ml/algorithms/kmeans.h"

#include <gtest/gtest.h>

#include "lockstep/ml/testing.h"
#include "reference.h"

namespace lockstep::test {
namespace {

/// How much farther from a row the centroid of scikit-learn's label is than that of ours: above 0 where they differ.
double largest_tie(const ml::KMeans& kmeans, const at::Tensor& x, const at::Tensor& their_labels) {
  const at::Tensor distances = kmeans.transform(x);
  const auto to = [&](const at::Tensor& labels) {
    return distances.gather(1, labels.to(at::kLong).unsqueeze(1)).squeeze(1);
  };
  const at::Tensor ours = to(kmeans.predict(x)), theirs = to(their_labels);
  return at::where(ours == theirs, 0, (theirs - ours).abs() / theirs).max().item<double>();
}

void compare(const ReferenceCase& one, const Said& said, int ranks, Differences& differences) {
  const at::Tensor& init = said["init"];
  ml::KMeans kmeans({.n_clusters = init.size(0),
                     .centers = init,
                     .max_iter = said.parameters["max_iter"],
                     .tol = said.parameters["tol"]});
  ml::testing::with_table(ranks, {.x = one.rows.x, .weights = one.rows.weights}, [&](const ml::Table& table) {
    ml::KMeans own = kmeans;
    own.fit(table);
    if (table.group().rank() == 0) kmeans = own;
  });
  const auto bound = [&](double of_float64) { return one.is_float32() ? 1e-4 : of_float64; };
  differences.at_most(bound(1e-10), "inertia", difference(kmeans.inertia(), said["inertia"]));
  differences.at_most(bound(1e-6), "ties", largest_tie(kmeans, one.rows.x, said["labels"]));
}

TEST(KmeansReference, IsScikitLearns) { compare_with_sklearn("kmeans", Cases::SetsAndSeeds, compare); }
TEST(KmeansReference, IsScikitLearnsOnFlights) { compare_with_sklearn("kmeans", Cases::Flights, compare); }

}  // namespace
}  // namespace lockstep::test
