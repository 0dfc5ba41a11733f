#include "lockstep/core/random.h"

#include "lockstep/ml/algorithms/kmeans_start.h"
#include "lockstep/ml/draw_rows.h"

namespace lockstep::ml {
namespace {

at::Tensor random_rows(const Table& table, std::int64_t clusters, std::uint64_t seed, int) {
  if (table.weighted()) return rows_at(table, draw_different_by_weight(table, seed, clusters));
  Random random(seed, 0);
  return rows_at(table, draw_different(random, table.rows(), clusters));
}

const KMeansStarts::Add registered{"random", "Rows that are drawn, each as likely as its weight is large", random_rows};

}  // namespace
}  // namespace lockstep::ml
