#include <gtest/gtest.h>

#include "lockstep/ml/algorithms/elastic_net.h"
#include "lockstep/ml/testing.h"
#include "reference.h"

namespace lockstep::test {
namespace {

void compare(const ReferenceCase& one, const Said& said, int ranks, Differences& differences) {
  ml::LinearModel model;
  ml::testing::with_table(ranks, one.rows, [&](const ml::Table& table) {
    ml::ElasticNet net({.alpha = said.parameters["alpha"],
                        .l1_ratio = said.parameters["l1_ratio"],
                        .fit_intercept = said.parameters.value("fit_intercept", true),
                        .max_iter = 200'000,
                        .tol = 1e-14,
                        .positive = said.parameters.value("positive", false)});
    net.fit(table);
    if (table.group().rank() == 0) model = net.model();
  });
  const double bound = said["coef"].scalar_type() == at::kFloat ? 1e-4 : 1e-8;
  differences.at_most(bound, "coef", difference(model.coef, said["coef"]));
  differences.at_most(bound, "intercept", difference_of_intercepts(model.intercept, said, one.rows.x));
}

TEST(ElasticNetReference, IsScikitLearns) { compare_with_sklearn("elasticnet", Cases::SetsAndSeeds, compare); }
TEST(ElasticNetReference, IsScikitLearnsOnFlights) { compare_with_sklearn("elasticnet", Cases::Flights, compare); }

}  // namespace
}  // namespace lockstep::test
