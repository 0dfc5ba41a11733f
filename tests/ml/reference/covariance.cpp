#include "lockstep/ml/algorithms/covariance.h"

#include <tuple>

#include <gtest/gtest.h>

#include "lockstep/ml/algorithms/basic_statistics.h"
#include "lockstep/ml/testing.h"
#include "reference.h"

namespace lockstep::test {
namespace {

void compare_moments(const ml::BasicStatistics& ours, const Said& said, Differences& differences) {
  // Means of centred columns are rounding alone: they are held against the columns' size.
  const double size = (said["mean"].square() + said["variance"]).sum().sqrt().item<double>();
  for (const auto& [name, values, rows] :
       {std::tuple{"mean", ours.mean(), 1.0}, std::tuple{"total", ours.sum(), said["weight"].item<double>()}}) {
    const double off = (values - said[name]).norm().item<double>() / rows;
    differences.at_most(1e-8, name, off == 0 ? 0 : off / size);
  }
  for (const auto& [name, values] : std::initializer_list<std::pair<std::string, at::Tensor>>{
           {"variance", ours.variance()}, {"min", ours.min()}, {"max", ours.max()}, {"count", ours.count()}}) {
    differences.at_most(1e-8, name, difference(values, said[name]));
  }
}

void compare(const ReferenceCase& one, const Said& said, int ranks, Differences& differences) {
  ml::testing::with_table(ranks, {.x = one.rows.x, .weights = one.rows.weights}, [&](const ml::Table& table) {
    ml::BasicStatistics statistics;
    statistics.fit(table);
    ml::EmpiricalCovariance covariance({.assume_centered = said.parameters.value("assume_centered", false)});
    covariance.fit(table);
    const bool scored = said.tensors.contains("score");
    const double score = scored ? covariance.score(table) : 0;
    if (table.group().rank() != 0) return;
    if (said.parameters["what"] == "moments") return compare_moments(statistics, said, differences);
    const double bound = said["covariance"].scalar_type() == at::kFloat ? 1e-4 : 1e-8;
    differences.at_most(bound, "covariance", difference(covariance.covariance(), said["covariance"]));
    if (said.tensors.contains("correlation") && said["correlation"].numel() > 0) {
      // Of constant columns there is none.
      const at::Tensor ours = covariance.correlation(), known = ours.isfinite();
      differences.at_most(bound, "correlation", difference(ours.index({known}), said["correlation"].index({known})));
    }
    if (!scored) return;
    differences.at_most(bound, "mahalanobis", difference(covariance.mahalanobis(one.rows.x), said["mahalanobis"]));
    differences.at_most(bound, "score", difference(score, said["score"]));
  });
}

TEST(CovarianceReference, IsScikitLearns) { compare_with_sklearn("covariance", Cases::SetsAndSeeds, compare); }
TEST(CovarianceReference, IsScikitLearnsOnFlights) { compare_with_sklearn("covariance", Cases::Flights, compare); }

}  // namespace
}  // namespace lockstep::test
