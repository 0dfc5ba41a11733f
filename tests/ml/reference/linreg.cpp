#include <gtest/gtest.h>

#include "lockstep/ml/algorithms/linear_regression.h"
#include "lockstep/ml/testing.h"
#include "reference.h"

namespace lockstep::test {
namespace {

void compare(const ReferenceCase& one, const Said& said, int ranks, Differences& differences) {
  ml::LinearModel model;
  ml::testing::with_table(ranks, one.rows, [&](const ml::Table& table) {
    ml::LinearRegression regression(
        {.alpha = said.parameters["alpha"], .fit_intercept = said.parameters["fit_intercept"]});
    regression.fit(table);
    if (table.group().rank() == 0) model = regression.model();
  });
  const double bound = said["coef"].scalar_type() == at::kFloat ? 1e-4 : 1e-8;
  differences.at_most(bound, "coef", difference(model.coef, said["coef"]));
  differences.at_most(bound, "intercept", difference_of_intercepts(model.intercept, said, one.rows.x));
}

TEST(LinregReference, IsScikitLearns) { compare_with_sklearn("linreg", Cases::SetsAndSeeds, compare); }
TEST(LinregReference, IsScikitLearnsOnFlights) { compare_with_sklearn("linreg", Cases::Flights, compare); }

}  // namespace
}  // namespace lockstep::test
