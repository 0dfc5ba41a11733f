#include "lockstep/ml/algorithms/minibatch_kmeans.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/one_thread.h"
#include "lockstep/core/random.h"
#include "lockstep/ml/algorithms/kmeans_start.h"
#include "lockstep/ml/algorithms/labelled_rows.h"
#include "lockstep/ml/check_option.h"
#include "lockstep/ml/draw_rows.h"
#include "lockstep/ml/moments.h"
#include "lockstep/ml/too_large.h"

namespace lockstep::ml {
namespace {

/// What chance decides, each with numbers of its own.
enum class Chance : std::uint8_t { Validation, StartRows, Start, Batch, Reassignment };

std::uint64_t key_of(std::uint64_t seed, Chance what) { return mix(seed, static_cast<std::uint64_t>(what)); }
Random random_of(std::uint64_t seed, Chance what, std::int64_t number) {
  return {key_of(seed, what), static_cast<std::uint64_t>(number)};
}

KMeansBeginning beginning_of(const MiniBatchKMeansOptions& options) { return {options.init, options.centers}; }

/// Whether it is worth going on, by the means over some batches, as scikit-learn decides it.
class Improvement {
 public:
  /// `share` is that of a batch in the table.
  Improvement(double share, std::int64_t patience) : share_(std::min(2 * share, 1.0)), patience_(patience) {}

  /// Whether there was none for too long.
  bool ended_with(double inertia) {
    smoothed_ = first_ ? inertia : smoothed_ * (1 - share_) + inertia * share_;
    first_ = false;
    without_ = smoothed_ < best_ ? 0 : without_ + 1;
    best_ = std::min(best_, smoothed_);
    return patience_ > 0 && without_ >= patience_;
  }
  double smoothed() const { return smoothed_; }

 private:
  double share_;
  std::int64_t patience_;
  bool first_ = true;
  double smoothed_ = 0;
  double best_ = std::numeric_limits<double>::infinity();
  std::int64_t without_ = 0;
};

double squared_way(const at::Tensor& from, const at::Tensor& to) {
  const OneThread same_bits;
  return (to - from).square().sum().item<double>();
}

}  // namespace

MiniBatchKMeans::MiniBatchKMeans(MiniBatchKMeansOptions options) : options_(std::move(options)) {
  check_from_one_on(options_.n_clusters, "n_clusters");
  check_from_one_on(options_.batch_size, "batch_size");
  check_from_one_on(options_.max_iter, "max_iter");
  check_from_zero_on(static_cast<double>(options_.n_init), "n_init");
  check_from_zero_on(static_cast<double>(options_.init_size), "init_size");
  check_from_zero_on(static_cast<double>(options_.max_no_improvement), "max_no_improvement");
  check_from_zero_on(options_.tol, "tol");
  check_from_zero_on(options_.reassignment_ratio, "reassignment_ratio");
  if (options_.init_size > 0 && options_.init_size < options_.n_clusters) {
    fail(Fault::Usage, fmt::format("init_size = {}: a start needs at least n_clusters = {} rows", options_.init_size,
                                   options_.n_clusters));
  }
  beginning_of(options_).check();
  if (options_.threads == 0) options_.threads = at::get_num_threads();
}

void MiniBatchKMeans::fit(const Table& table, const std::function<void(const MiniBatchStep&)>& see) {
  // If the table is refused, what was fitted before can still go on.
  MiniBatchKMeans next(options_);
  next.learn(table, see);
  *this = std::move(next);
}

void MiniBatchKMeans::learn(const Table& table, const std::function<void(const MiniBatchStep&)>& see) {
  const KMeansBeginning beginning = beginning_of(options_);
  beginning.check_for(table, options_.n_clusters);
  restart(table.rows());
  constexpr std::int64_t kOfRandom = 3;
  const RowDraw draw(table, options_.threads);
  centers_ = begin(table, draw, beginning.starts(options_.n_init, kOfRandom));
  const double tolerance = options_.tol == 0 ? 0 : options_.tol * mean_variance(table, options_.threads);
  const auto rows = static_cast<double>(table.rows()), batch_size = static_cast<double>(batch_size_);
  // So many passes that rows overflow are as good as no end.
  std::int64_t most_rows = 0;
  if (__builtin_mul_overflow(options_.max_iter, table.rows(), &most_rows)) {
    most_rows = std::numeric_limits<std::int64_t>::max();
  }
  const std::int64_t steps = most_rows / batch_size_;
  Improvement improvement(batch_size / (rows + 1), options_.max_no_improvement);
  for (bool ended = false; n_steps_ < steps && !ended;) {
    const auto batch = draw(random_of(options_.random_state, Chance::Batch, n_steps_), batch_size_);
    const at::Tensor before = tolerance > 0 ? centers_.clone() : at::Tensor();
    const double inertia = step(*batch, table) / batch_size;
    // The first batch tells of the start, not of how it goes on.
    if (n_steps_ > 1) {
      ended = (tolerance > 0 && squared_way(before, centers_) <= tolerance) || improvement.ended_with(inertia);
    }
    if (see) {
      see({n_steps_, steps, inertia, n_steps_ > 1 ? improvement.smoothed() : inertia, ended || n_steps_ == steps});
    }
  }
  n_iter_ = static_cast<std::int64_t>(std::ceil(static_cast<double>(n_steps_) * batch_size / rows));
  measure(table);
}

void MiniBatchKMeans::partial_fit(const Table& table) {
  check_finite(table);  // before anything changes, as more batches may come
  if (!centers_.defined()) {
    beginning_of(options_).check_for(table, options_.n_clusters);
    restart(table.rows());
    centers_ = begin(table, RowDraw(table, options_.threads), 1);
  }
  if (centers_.size(1) != table.columns()) {
    fail(Fault::Usage,
         fmt::format("a batch of {} columns, where those before had {}", table.columns(), centers_.size(1)));
  }
  (void)step(table, table);
  measure(table);
}

ModelFile MiniBatchKMeans::file(const Table& table) const {
  return file_with(table, {{"init", beginning_of(options_).name()},
                           {"batch_size", options_.batch_size},
                           {"max_iter", options_.max_iter},
                           {"tol", options_.tol},
                           {"max_no_improvement", options_.max_no_improvement},
                           {"reassignment_ratio", options_.reassignment_ratio},
                           {"random_state", options_.random_state},
                           {"n_steps", n_steps_}});
}

void MiniBatchKMeans::restart(std::int64_t rows) {
  counts_ = at::zeros({options_.n_clusters}, at::kDouble);
  batch_size_ = std::min(options_.batch_size, rows);
  n_steps_ = 0;
  since_reassigned_ = 0;
}

at::Tensor MiniBatchKMeans::begin(const Table& table, const RowDraw& draw, std::int64_t starts) const {
  const KMeansBeginning beginning = beginning_of(options_);
  if (beginning.centers.defined()) return beginning(table, options_.n_clusters, 0, options_.threads);
  std::int64_t size = options_.init_size;
  if (size == 0) size = 3 * (3 * batch_size_ < options_.n_clusters ? options_.n_clusters : batch_size_);
  const auto drawn = [&](Chance what, std::int64_t number) {
    return draw(random_of(options_.random_state, what, number), std::min(size, table.rows()));
  };
  std::unique_ptr<Table> validation;
  if (starts > 1) validation = drawn(Chance::Validation, 0);
  at::Tensor best;
  double best_inertia = std::numeric_limits<double>::infinity();
  for (std::int64_t start = 0; start < starts; ++start) {
    const auto some = size < table.rows() ? drawn(Chance::StartRows, start) : nullptr;
    const std::uint64_t seed = mix(key_of(options_.random_state, Chance::Start), static_cast<std::uint64_t>(start));
    const at::Tensor centers = beginning(some ? *some : table, options_.n_clusters, seed, options_.threads);
    const double inertia = validation ? LabelledRows(*validation, options_.threads).nearest_inertia(centers) : 0;
    if (best.defined() && !(inertia < best_inertia)) continue;
    best = centers;
    best_inertia = inertia;
  }
  return best;
}

double MiniBatchKMeans::step(const Table& batch, const Table& table) {
  const bool reassigns = reassigns_now();
  const ClusterTotals totals = LabelledRows(batch, options_.threads).sweep(centers_, /*with_inertia=*/true);
  if (!totals.finite()) check_finite(table);
  const std::int64_t columns = centers_.size(1);
  double* counts = counts_.mutable_data_ptr<double>();
  for (std::int64_t cluster = 0; cluster < options_.n_clusters; ++cluster) {
    const double weight = totals.weights()[cluster];
    if (!(weight > 0)) continue;
    double* center = centers_.mutable_data_ptr<double>() + cluster * columns;
    for (std::int64_t column = 0; column < columns; ++column) {
      center[column] = (center[column] * counts[cluster] + totals.sum(cluster)[column]) / (counts[cluster] + weight);
    }
    counts[cluster] += weight;
  }
  if (reassigns) reassign(batch);
  ++n_steps_;
  return totals.inertia();
}

bool MiniBatchKMeans::reassigns_now() {
  since_reassigned_ += batch_size_;
  constexpr std::int64_t kRowsOfCluster = 10;
  const double* counts = counts_.const_data_ptr<double>();
  const bool any_empty = std::find(counts, counts + options_.n_clusters, 0.0) != counts + options_.n_clusters;
  if (!any_empty && since_reassigned_ < kRowsOfCluster * options_.n_clusters) return false;
  since_reassigned_ = 0;
  return options_.reassignment_ratio > 0;
}

std::vector<std::int64_t> MiniBatchKMeans::drawn_from(const Table& batch, std::int64_t count) const {
  if (batch.weighted()) {
    const std::uint64_t key = key_of(options_.random_state, Chance::Reassignment);
    return draw_different_by_weight(batch, mix(key, static_cast<std::uint64_t>(n_steps_)), count);
  }
  Random random = random_of(options_.random_state, Chance::Reassignment, n_steps_);
  return draw_different(random, batch.rows(), count);
}

void MiniBatchKMeans::reassign(const Table& batch) {
  double* counts = counts_.mutable_data_ptr<double>();
  const double least = options_.reassignment_ratio * *std::max_element(counts, counts + options_.n_clusters);
  std::vector<std::int64_t> order(static_cast<std::size_t>(options_.n_clusters));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto one, auto other) { return counts[one] < counts[other]; });
  // To half the rows of the batch that weigh something at most, and never all of them.
  const auto most = std::min(count_weighing(batch) / 2, options_.n_clusters - 1);
  std::int64_t few = 0;
  while (few < most && counts[order[static_cast<std::size_t>(few)]] < least) ++few;
  if (few == 0) return;
  const at::Tensor rows = rows_at(batch, drawn_from(batch, few));
  for (std::int64_t i = 0; i < few; ++i) {
    const std::int64_t cluster = order[static_cast<std::size_t>(i)];
    centers_[cluster].copy_(rows[i]);
    // Not so low that it would be moved again at once.
    counts[cluster] = counts[order[static_cast<std::size_t>(few)]];
  }
}

void MiniBatchKMeans::measure(const Table& table) {
  inertia_ = LabelledRows(table, options_.threads).nearest_inertia(centers_);
  if (std::isfinite(inertia_)) return;
  check_finite(table);
  fail_of_large_squares();
}

}  // namespace lockstep::ml
