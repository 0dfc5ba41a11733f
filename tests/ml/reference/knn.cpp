#include <memory>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lockstep/ml/algorithms/neighbors.h"
#include "lockstep/ml/testing.h"
#include "reference.h"

namespace lockstep::test {
namespace {

void compare(const ReferenceCase& one, const Said& said, int ranks, Differences& differences) {
  const ml::NeighborsOptions options{.n_neighbors = said.parameters["n_neighbors"],
                                     .weights = said.parameters["weights"]};
  at::Tensor labels, values, distances;
  comm::testing::on_ranks({ranks}, [&](comm::Communicator& group) {
    const auto own = [&](const at::Tensor& whole) { return ml::testing::part_of(whole, group.rank(), ranks); };
    ml::KNeighborsClassifier classifier(options);
    classifier.fit(ml::make_table(group, {.x = own(one.rows.x), .targets = own(one.labels)}));
    ml::KNeighborsRegressor regressor(options);
    regressor.fit(ml::make_table(group, {.x = own(one.rows.x), .targets = own(one.rows.targets)}));
    // Rank 0 asks for all, the others for nothing.
    const at::Tensor queries = group.rank() == 0 ? said["queries"] : said["queries"].slice(0, 0, 0);
    const auto said_here = classifier.predict(queries), told = regressor.predict(queries);
    const auto neighbors = classifier.kneighbors(queries);
    if (group.rank() == 0) labels = said_here, values = told, distances = neighbors.distances;
  });
  const at::Tensor sure = said["sure"];
  const double bound = one.is_float32() ? 1e-4 : 1e-8;
  differences.at_most(0, "labels that differ", (labels.ne(said["labels"]) & sure).sum().item<double>());
  differences.at_most(bound, "distances", difference(distances, said["distances"]));
  differences.at_most(bound, "values", difference(values.index({sure}), said["values"].index({sure})));
}

TEST(KnnReference, IsScikitLearns) { compare_with_sklearn("knn", Cases::SetsAndSeeds, compare); }

}  // namespace
}  // namespace lockstep::test
