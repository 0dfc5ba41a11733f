#include "lockstep/ml/algorithms/kmeans.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/log.h"
#include "lockstep/core/random.h"
#include "lockstep/ml/algorithms/kmeans_start.h"
#include "lockstep/ml/algorithms/labelled_rows.h"
#include "lockstep/ml/check_option.h"
#include "lockstep/ml/check_rows.h"
#include "lockstep/ml/fold.h"
#include "lockstep/ml/moments.h"
#include "lockstep/ml/too_large.h"

namespace lockstep::ml {
namespace {

/// One start, from its centroids to where they stay.
class Lloyd {
 public:
  Lloyd(const Table& table, const KMeansOptions& options, at::Tensor centers)
      : table_(table),
        options_(options),
        clusters_(centers.size(0)),
        columns_(table.columns()),
        centers_(std::move(centers)),
        rows_(table, options.threads) {}

  /// `pass` says which start it is.
  void run(double tolerance, KMeansPass pass, const std::function<void(const KMeansPass&)>& see) {
    bool stable = false;
    for (iterations_ = 0; iterations_ < options_.max_iter;) {
      const ClusterTotals totals = rows_.sweep(centers_, /*with_inertia=*/false);
      if (!totals.finite()) check_finite(table_);
      check_weight(std::accumulate(totals.weights(), totals.weights() + clusters_, 0.0));
      fill_empty(totals);
      pass.shift = move(totals);
      pass.iteration = ++iterations_;
      pass.changed = totals.changed();
      stable = pass.changed == 0;
      pass.last = stable || pass.shift <= tolerance || iterations_ == options_.max_iter;
      if (see) see(pass);
      if (pass.last) break;
    }
    inertia_ = stable ? rows_.inertia(centers_) : rows_.nearest_inertia(centers_);
  }

  const at::Tensor& centers() const noexcept { return centers_; }
  std::int64_t iterations() const noexcept { return iterations_; }
  double inertia() const noexcept { return inertia_; }
  const LabelledRows& rows() const noexcept { return rows_; }

 private:
  /// Moves centroids without rows to the rows that are farthest from theirs, as scikit-learn does.
  void fill_empty(const ClusterTotals& totals) {
    double* weights = totals.weights();
    std::vector<std::int64_t> empty;
    for (std::int64_t cluster = 0; cluster < clusters_; ++cluster) {
      if (weights[cluster] == 0) empty.push_back(cluster);
    }
    if (empty.empty() || options_.empty == "keep") return;
    if (options_.empty == "error") {
      fail(Fault::Data, fmt::format("centroid {} has no rows; use fewer clusters, or --empty farthest", empty.front()));
    }
    const auto far = farthest(static_cast<std::int64_t>(empty.size()));
    std::vector<double> left = rows_by_label(weights);
    for (std::size_t i = 0; i < far.size(); ++i) {
      const auto& [distance, number, weight, label] = far[i];
      if (distance <= 0) break;  // fewer different rows than centroids
      const at::Tensor row = rows_at(table_, {number});
      for (std::int64_t column = 0; column < columns_; ++column) {
        const double value = weight * row.const_data_ptr<double>()[column];
        totals.sum(label)[column] -= value;
        totals.sum(empty[i])[column] = value;
      }
      weights[label] -= weight;
      weights[empty[i]] = weight;
      // Of the last row rounding would remain, as of 0.1 + 0.2 - 0.2 - 0.1, and be taken for a mean.
      if (--left[static_cast<std::size_t>(label)] == 0) weights[label] = 0;
    }
  }

  /// Rows that weigh something. A collective of tables with weights; without, these are their numbers.
  std::vector<double> rows_by_label(const double* weights) const {
    if (!table_.weighted()) return {weights, weights + clusters_};
    const at::Tensor rows = fold(table_, options_.threads,
                                 {.name = "rows of clusters",
                                  .size = clusters_,
                                  .leaf = [&](const Block& block, std::int64_t number, double* counts, int) {
                                    const std::int32_t* labels = rows_.labels_of(number);
                                    for (std::int64_t row = 0; row < block.rows; ++row) {
                                      if (block.weight(row) > 0) ++counts[labels[row]];
                                    }
                                  }});
    return {rows.const_data_ptr<double>(), rows.const_data_ptr<double>() + clusters_};
  }

  struct FarRow {
    double distance = -1;
    std::int64_t number = 0;
    double weight = 0;
    std::int64_t label = 0;
  };
  /// The farthest first; of equally far ones the first row.
  std::vector<FarRow> farthest(std::int64_t count) {
    constexpr std::int64_t kWords = 4;
    const auto before = [](const double* one, const double* other) {
      return one[0] != other[0] ? one[0] > other[0] : one[1] < other[1];
    };
    const auto merge = [&](double* left, const double* right) {
      std::vector<double> both(left, left + count * kWords);
      both.insert(both.end(), right, right + count * kWords);
      std::vector<std::int64_t> order(static_cast<std::size_t>(2 * count));
      std::iota(order.begin(), order.end(), std::int64_t{0});
      std::stable_sort(order.begin(), order.end(), [&](std::int64_t one, std::int64_t other) {
        return before(both.data() + one * kWords, both.data() + other * kWords);
      });
      for (std::int64_t i = 0; i < count; ++i) {
        std::copy_n(both.data() + order[static_cast<std::size_t>(i)] * kWords, kWords, left + i * kWords);
      }
    };
    const at::Tensor found = fold(table_, options_.threads,
                                  {.name = "farthest rows",
                                   .size = count * kWords,
                                   .leaf =
                                       [&](const Block& block, std::int64_t number, double* best, int) {
                                         const auto distances = rows_.squared_distances_of(block, number, centers_);
                                         for (std::int64_t i = 0; i < count; ++i) best[i * kWords] = -1;
                                         std::vector<double> one(static_cast<std::size_t>(count * kWords), -1);
                                         for (std::int64_t row = 0; row < block.rows; ++row) {
                                           const double weight = block.weight(row);
                                           const double distance = distances[static_cast<std::size_t>(row)];
                                           if (weight == 0 || distance <= best[(count - 1) * kWords]) continue;
                                           one[0] = distance;
                                           one[1] = static_cast<double>(block.first + row);
                                           one[2] = weight;
                                           one[3] = rows_.labels_of(number)[row];
                                           merge(best, one.data());
                                         }
                                       },
                                   .combine = merge});
    std::vector<FarRow> result;
    const double* words = found.const_data_ptr<double>();
    for (std::int64_t i = 0; i < count; ++i, words += kWords) {
      result.push_back({words[0], static_cast<std::int64_t>(words[1]), words[2], static_cast<std::int64_t>(words[3])});
    }
    return result;
  }

  /// To the means of their rows; returns the sum of the squared ways.
  double move(const ClusterTotals& totals) {
    const double* weights = totals.weights();
    double* centers = centers_.mutable_data_ptr<double>();
    double way = 0;
    for (std::int64_t cluster = 0; cluster < clusters_; ++cluster) {
      if (weights[cluster] <= 0) continue;
      for (std::int64_t column = 0; column < columns_; ++column) {
        double& center = centers[cluster * columns_ + column];
        const double mean = totals.sum(cluster)[column] / weights[cluster];
        way += (mean - center) * (mean - center);
        center = mean;
      }
    }
    return way;
  }

  const Table& table_;
  const KMeansOptions& options_;
  std::int64_t clusters_, columns_;
  at::Tensor centers_;
  LabelledRows rows_;
  std::int64_t iterations_ = 0;
  double inertia_ = 0;
};

void warn_of_equal(const Table& table, const at::Tensor& centers) {
  if (table.group().rank() != 0) return;
  std::set<std::vector<double>> different;
  for (std::int64_t cluster = 0; cluster < centers.size(0); ++cluster) {
    const double* center = centers.const_data_ptr<double>() + cluster * centers.size(1);
    different.emplace(center, center + centers.size(1));
  }
  const auto count = static_cast<std::int64_t>(different.size());
  if (count < centers.size(0))
    log().warn("only {} of {} centroids differ: there are fewer different rows than clusters", count, centers.size(0));
}

KMeansBeginning beginning_of(const KMeansOptions& options) { return {options.init, options.centers}; }

}  // namespace

KMeans::KMeans(KMeansOptions options) : options_(std::move(options)) {
  check_from_one_on(options_.n_clusters, "n_clusters");
  check_from_one_on(options_.max_iter, "max_iter");
  check_from_zero_on(static_cast<double>(options_.n_init), "n_init");
  check_from_zero_on(options_.tol, "tol");
  check_one_of(options_.empty, "empty", {"farthest", "keep", "error"});
  beginning_of(options_).check();
  if (options_.threads == 0) options_.threads = at::get_num_threads();
}

void KMeans::fit(const Table& table, const std::function<void(const KMeansPass&)>& see) {
  // If the table is refused, centroids and inertia of the last one still go together.
  KMeans next(options_);
  next.learn(table, see);
  *this = std::move(next);
}

void KMeans::learn(const Table& table, const std::function<void(const KMeansPass&)>& see) {
  const KMeansBeginning begin = beginning_of(options_);
  begin.check_for(table, options_.n_clusters);
  const double tolerance = options_.tol == 0 ? 0 : options_.tol * mean_variance(table, options_.threads);
  constexpr std::int64_t kOfRandom = 10;
  const std::int64_t starts = begin.starts(options_.n_init, kOfRandom);
  inertia_ = std::numeric_limits<double>::infinity();
  for (std::int64_t start = 0; start < starts; ++start) {
    const std::uint64_t seed = mix(options_.random_state, static_cast<std::uint64_t>(start));
    Lloyd lloyd(table, options_, begin(table, options_.n_clusters, seed, options_.threads));
    lloyd.run(tolerance, {.start = start, .starts = starts}, see);
    if (!std::isfinite(lloyd.inertia())) fail_of_large_squares();
    if (!(lloyd.inertia() < inertia_)) continue;
    inertia_ = lloyd.inertia();
    centers_ = lloyd.centers();
    n_iter_ = lloyd.iterations();
    labels_ = lloyd.rows().labels();
  }
  warn_of_equal(table, centers_);
}

ModelFile KMeans::file(const Table& table) const {
  return file_with(table, {{"init", beginning_of(options_).name()},
                           {"max_iter", options_.max_iter},
                           {"tol", options_.tol},
                           {"random_state", options_.random_state}});
}

}  // namespace lockstep::ml
