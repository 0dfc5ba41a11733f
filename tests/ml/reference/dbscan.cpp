#include "lockstep/ml/algorithms/dbscan.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lockstep/ml/own_rows.h"
#include "lockstep/ml/testing.h"
#include "reference.h"

namespace lockstep::test {
namespace {

void compare(const ReferenceCase& one, const Said& said, int ranks, Differences& differences) {
  const std::int64_t count = said["labels"].size(0);
  const auto first = [&](const at::Tensor& whole) { return whole.defined() ? whole.slice(0, 0, count) : whole; };
  at::Tensor labels, core;
  ml::testing::with_table(ranks, {first(one.rows.x), {}, first(one.rows.weights)}, [&](const ml::Table& table) {
    ml::DBSCAN dbscan({.eps = said.parameters["eps"], .min_samples = said.parameters["min_samples"]});
    dbscan.fit(table);
    const auto all_labels = ml::gather_rows(table, dbscan.labels()), all_core = ml::gather_rows(table, dbscan.core());
    if (table.group().rank() == 0) labels = all_labels, core = all_core;
  });
  differences.at_most(0, "core rows that differ", core.ne(said["core"]).sum().item<double>());
  differences.at_most(0, "labels that differ", labels.ne(said["labels"]).sum().item<double>());
}

TEST(DbscanReference, IsScikitLearns) { compare_with_sklearn("dbscan", Cases::SetsAndSeeds, compare); }

}  // namespace
}  // namespace lockstep::test
