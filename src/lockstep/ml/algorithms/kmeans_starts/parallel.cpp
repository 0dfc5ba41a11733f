#include <algorithm>
#include <set>
#include <vector>

#include <ATen/ops/cat.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>

#include "lockstep/comm/gather_values.h"
#include "lockstep/core/random.h"
#include "lockstep/ml/algorithms/centroid_columns.h"
#include "lockstep/ml/algorithms/kmeans.h"
#include "lockstep/ml/algorithms/kmeans_start.h"
#include "lockstep/ml/algorithms/kmeans_starts/closest.h"
#include "lockstep/ml/fold.h"

namespace lockstep::ml {
namespace {

constexpr int kRounds = 5;

/// Rows that are far from what is chosen are chosen, each by a chance of its own. By number, on every rank.
std::vector<std::int64_t> choose(const Table& table, const Closest& closest, std::uint64_t key, double expected) {
  const double share = expected / closest.total();
  std::vector<std::int64_t> own;
  at::Tensor scratch;
  for (std::int64_t number = table.own_begin(); number < table.own_end(); ++number) {
    const Block block = table.block(number, scratch);
    for (std::int64_t row = 0; row < block.rows; ++row) {
      const std::int64_t place = block.first + row;
      if (!Random(key, static_cast<std::uint64_t>(place)).chance(share * closest.weighted(block, row))) continue;
      own.push_back(place);
    }
  }
  return comm::gather_values(table.group(), own);
}

/// The weight of the rows that are nearest to each of `centers`.
at::Tensor weights_of(const Table& table, const at::Tensor& centers, int threads) {
  const std::int64_t count = centers.size(0);
  return with_type_of(table, [&]<class T>(T) {
    const auto centroids = centroid_columns<T>(centers);
    return fold(table, threads,
                {.name = "weights of candidates",
                 .size = count,
                 .leaf = [&](const Block& block, std::int64_t, double* weights, int) {
                   std::vector<std::int32_t> labels(static_cast<std::size_t>(block.rows));
                   assign(block.x<T>(), block.rows, centroids, nullptr, labels.data(), {});
                   for (std::int64_t row = 0; row < block.rows; ++row) {
                     weights[labels[static_cast<std::size_t>(row)]] += block.weight(row);
                   }
                 }});
  });
}

/// Places of candidates that are unlike all before them, up to `most`.
std::vector<std::int64_t> different_ones(const at::Tensor& candidates, std::int64_t most) {
  std::vector<std::int64_t> places;
  std::set<std::vector<double>> seen;
  const double* row = candidates.const_data_ptr<double>();
  for (std::int64_t place = 0; place < candidates.size(0) && std::ssize(places) < most; ++place) {
    const double* end = row + candidates.size(1);
    if (seen.emplace(row, end).second) places.push_back(place);
    row = end;
  }
  return places;
}

/// Bahmani et al., "Scalable k-means++" (2012): a few passes whatever the number of clusters.
at::Tensor parallel_plus_plus(const Table& table, std::int64_t clusters, std::uint64_t seed, int threads) {
  Random random(seed, 0);
  Closest closest(table, threads);
  at::Tensor candidates = rows_at(table, closest.draw(random, 1));
  closest.add(candidates);
  for (int round = 0; round < kRounds && closest.total() > 0; ++round) {
    const auto chosen =
        choose(table, closest, mix(seed, static_cast<std::uint64_t>(round) + 1), 2.0 * static_cast<double>(clusters));
    if (chosen.empty()) continue;
    const at::Tensor more = rows_at(table, chosen);
    closest.add(more);
    candidates = at::cat({candidates, more});
  }
  while (candidates.size(0) < clusters) {
    candidates = at::cat({candidates, rows_at(table, closest.draw(random, clusters - candidates.size(0)))});
  }
  // Too few to choose among: all of them, and the first once more for each that is wanting. A fit of them would warn of
  // equal centroids on every rank; that of the table does it once, and only if there still are some.
  auto places = different_ones(candidates, clusters + 1);
  if (std::ssize(places) <= clusters) {
    places.resize(static_cast<std::size_t>(clusters));
    return candidates.index_select(0, at::tensor(places, at::kLong));
  }
  const at::Tensor weights = weights_of(table, candidates, threads);
  // Few enough for every rank by itself.
  const auto alone = table.group().split(table.group().rank());
  KMeans of_candidates({.n_clusters = clusters, .random_state = seed, .threads = 1});
  of_candidates.fit(*make_table(*alone, {.x = candidates, .weights = weights}));
  return of_candidates.cluster_centers();
}

const KMeansStarts::Add registered{"k-means||", "Rows far from those drawn before, many at once", parallel_plus_plus};

}  // namespace
}  // namespace lockstep::ml
