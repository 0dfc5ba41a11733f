#include "lockstep/ml/algorithms/svd.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "lockstep/ml/testing.h"
#include "reference.h"

namespace lockstep::test {
namespace {

void compare_exact(const ml::TruncatedSVD& svd, const Said& said, Differences& differences) {
  for (const auto& [name, values] : std::initializer_list<std::pair<std::string, at::Tensor>>{
           {"components", svd.components()},
           {"singular_values", svd.singular_values()},
           {"explained_variance", svd.explained_variance()},
           {"explained_variance_ratio", svd.explained_variance_ratio()}}) {
    differences.at_most(1e-8, name, difference(values, said[name]));
  }
}

void compare(const ReferenceCase& one, const Said& said, int ranks, Differences& differences) {
  ml::testing::with_table(ranks, {.x = one.rows.x}, [&](const ml::Table& table) {
    ml::SVD all;
    all.fit(table);
    const std::int64_t wanted = said.parameters["n_components"];
    ml::TruncatedSVD exact({.n_components = std::max<std::int64_t>(wanted, 1), .algorithm = "exact"});
    ml::TruncatedSVD random({.n_components = std::max<std::int64_t>(wanted, 1)});
    exact.fit(table);
    random.fit(table);
    if (table.group().rank() != 0) return;
    differences.at_most(1e-8, "values", difference(all.singular_values(), said["values"]));
    if (wanted == 0) return;
    compare_exact(exact, said, differences);
    // Of a random subspace counts how much of the rows it holds: no less than scikit-learn's.
    const double energy = random.singular_values().norm().item<double>(), theirs = said["energy"].item<double>();
    differences.at_most(1e-8, "energy below", std::max(theirs - energy, 0.0) / theirs);
  });
}

TEST(SvdReference, IsScikitLearns) { compare_with_sklearn("svd", Cases::SetsAndSeeds, compare); }
TEST(SvdReference, IsScikitLearnsOnFlights) { compare_with_sklearn("svd", Cases::Flights, compare); }

}  // namespace
}  // namespace lockstep::test
