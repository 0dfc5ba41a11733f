#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lockstep/ml/algorithms/gaussian_nb.h"
#include "lockstep/ml/algorithms/multinomial_nb.h"
#include "lockstep/ml/testing.h"
#include "reference.h"

namespace lockstep::test {
namespace {

template <class Bayes>
Bayes fitted(Bayes bayes, const ml::TableRows& rows, int ranks) {
  Bayes result;
  ml::testing::with_table(ranks, rows, [&](const ml::Table& table) {
    Bayes own = bayes;
    own.fit(table);
    if (table.group().rank() == 0) result = own;
  });
  return result;
}

void compare(const ReferenceCase& one, const Said& said, int ranks, Differences& differences) {
  ml::TableRows rows = one.rows;
  rows.targets = one.labels;
  constexpr double kBound = 1e-8;
  const at::Tensor some = one.rows.x.slice(0, 0, said["joint"].size(0));
  if (said.parameters["kind"] == "gaussian") {
    const auto bayes =
        fitted(ml::GaussianNB({.var_smoothing = said.parameters.value("var_smoothing", 1e-9)}), rows, ranks);
    differences.at_most(kBound, "theta", difference(bayes.theta(), said["theta"]));
    differences.at_most(kBound, "var", difference(bayes.var(), said["var"]));
    differences.at_most(kBound, "prior", difference(bayes.class_prior(), said["prior"]));
    differences.at_most(kBound, "joint", difference(bayes.predict_joint_log_proba(some), said["joint"]));
    return;
  }
  rows.x = rows.x.abs();
  const auto bayes = fitted(ml::MultinomialNB({.alpha = said.parameters.value("alpha", 1.0),
                                               .fit_prior = said.parameters.value("fit_prior", true)}),
                            rows, ranks);
  differences.at_most(kBound, "count", difference(bayes.feature_count(), said["count"]));
  differences.at_most(kBound, "log_prob", difference(bayes.feature_log_prob(), said["log_prob"]));
  differences.at_most(kBound, "prior", difference(bayes.class_log_prior(), said["prior"]));
  differences.at_most(kBound, "joint", difference(bayes.predict_joint_log_proba(some.abs()), said["joint"]));
}

TEST(NaiveBayesReference, IsScikitLearns) { compare_with_sklearn("naive_bayes", Cases::SetsAndSeeds, compare); }
TEST(NaiveBayesReference, IsScikitLearnsOnFlights) { compare_with_sklearn("naive_bayes", Cases::Flights, compare); }

}  // namespace
}  // namespace lockstep::test
