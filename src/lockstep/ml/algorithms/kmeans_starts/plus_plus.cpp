#include <algorithm>
#include <cmath>

#include <ATen/ops/empty.h>

#include "lockstep/ml/algorithms/kmeans_start.h"
#include "lockstep/ml/algorithms/kmeans_starts/closest.h"

namespace lockstep::ml {
namespace {

/// Arthur and Vassilvitskii, "k-means++" (2007), of several tries for each centroid the best, as scikit-learn does.
at::Tensor plus_plus(const Table& table, std::int64_t clusters, std::uint64_t seed, int threads) {
  Random random(seed, 0);
  Closest closest(table, threads);
  const auto tries = 2 + static_cast<std::int64_t>(std::log(static_cast<double>(clusters)));
  const at::Tensor centers = at::empty({clusters, table.columns()}, at::kDouble);
  centers[0].copy_(rows_at(table, closest.draw(random, 1))[0]);
  closest.add(centers.slice(0, 0, 1));
  for (std::int64_t cluster = 1; cluster < clusters; ++cluster) {
    const at::Tensor candidates = rows_at(table, closest.draw(random, tries));
    const auto totals = closest.totals_with(candidates);
    const auto best = std::min_element(totals.begin(), totals.end()) - totals.begin();
    centers[cluster].copy_(candidates[best]);
    closest.add(centers.slice(0, cluster, cluster + 1));
  }
  return centers;
}

const KMeansStarts::Add registered{"k-means++", "Rows far from those drawn before, one after another", plus_plus};

}  // namespace
}  // namespace lockstep::ml
