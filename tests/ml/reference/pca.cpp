#include "lockstep/ml/algorithms/pca.h"

#include <gtest/gtest.h>

#include "lockstep/ml/testing.h"
#include "reference.h"

namespace lockstep::test {
namespace {

/// The first components, whose directions rounding does not decide: what is next to nothing has no direction. Products
/// know it of less than the rows themselves do, whose squares they are.
std::int64_t determined(const at::Tensor& variances, bool of_products) {
  return variances.gt(variances[0] * (of_products ? 1e-8 : 1e-10)).sum().item<std::int64_t>();
}

void compare_model(const ml::PCA& pca, const at::Tensor& x, const Said& said, Differences& differences) {
  const double bound = said["mean"].scalar_type() == at::kFloat ? 1e-4 : 1e-8;
  const std::int64_t count = determined(said["explained_variance"], pca.svd_solver() == "covariance_eigh");
  const auto first = [&](const at::Tensor& values) { return values.slice(0, 0, count); };
  for (const auto& [name, values] : std::initializer_list<std::pair<std::string, at::Tensor>>{
           {"explained_variance", pca.explained_variance()},
           {"explained_variance_ratio", pca.explained_variance_ratio()}}) {
    differences.at_most(bound, name, difference(values, said[name]));
  }
  for (const auto& [name, values] : std::initializer_list<std::pair<std::string, at::Tensor>>{
           {"components", pca.components()}, {"singular_values", pca.singular_values()}}) {
    differences.at_most(bound, name, difference(first(values), first(said[name])));
  }
  differences.at_most(
      bound, "transformed",
      difference(pca.transform(x.slice(0, 0, 50)).slice(1, 0, count), said["transformed"].slice(1, 0, count)));
  // Means of centred columns are rounding alone: they are held against the columns' size.
  const double size = (said["mean"].square().sum() + said["explained_variance"].sum()).sqrt().item<double>();
  differences.at_most(bound, "mean", (pca.mean() - said["mean"]).norm().item<double>() / size);
}

void compare(const ReferenceCase& one, const Said& said, int ranks, Differences& differences) {
  for (const char* solver : {"auto", "full"}) {
    SCOPED_TRACE(solver);
    ml::testing::with_table(ranks, {.x = one.rows.x}, [&](const ml::Table& table) {
      ml::PCA pca(
          {.n_components = said.parameters["n_components"], .whiten = said.parameters["whiten"], .svd_solver = solver});
      pca.fit(table);
      const double score = said.tensors.contains("score") ? pca.score(table) : 0;
      if (table.group().rank() != 0) return;
      compare_model(pca, one.rows.x, said, differences);
      if (!said.tensors.contains("score")) return;
      const double bound = said["mean"].scalar_type() == at::kFloat ? 1e-4 : 1e-8;
      differences.at_most(bound, "noise_variance", difference(pca.noise_variance(), said["noise_variance"]));
      differences.at_most(bound, "score", difference(score, said["score"]));
    });
  }
}

TEST(PcaReference, IsScikitLearns) { compare_with_sklearn("pca", Cases::SetsAndSeeds, compare); }
TEST(PcaReference, IsScikitLearnsOnFlights) { compare_with_sklearn("pca", Cases::Flights, compare); }

}  // namespace
}  // namespace lockstep::test
