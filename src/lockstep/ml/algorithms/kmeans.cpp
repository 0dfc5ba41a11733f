#include "lockstep/ml/algorithms/kmeans.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/random.h"
#include "lockstep/ml/algorithms/kmeans_start.h"
#include "lockstep/ml/fold.h"
#include "lockstep/ml/kernels/assign.h"
#include "lockstep/ml/moments.h"

namespace lockstep::ml {
namespace {

constexpr const char kName[] = "kmeans";

std::span<const double> values_of(const at::Tensor& centers) {
  return {centers.const_data_ptr<double>(), static_cast<std::size_t>(centers.numel())};
}

/// One start, from its centroids to where they stay.
class Lloyd {
 public:
  Lloyd(const Table& table, const KMeansOptions& options, at::Tensor centers)
      : table_(table),
        options_(options),
        clusters_(centers.size(0)),
        columns_(table.columns()),
        stride_(padded(columns_)),
        centers_(std::move(centers)),
        labels_(static_cast<std::size_t>(table.own_rows()), -1) {}

  void run(double tolerance, std::int64_t start, const std::function<void(const KMeansPass&)>& see) {
    bool stable = false;
    for (iterations_ = 0; iterations_ < options_.max_iter && !stable;) {
      at::Tensor sums = sweep();
      double* weights = sums.mutable_data_ptr<double>() + clusters_ * stride_;
      const auto changed = static_cast<std::int64_t>(weights[clusters_]);
      check_sums(sums);
      fill_empty(sums.mutable_data_ptr<double>(), weights);
      const double shift = move(sums.const_data_ptr<double>(), weights);
      ++iterations_;
      if (see) see({start, iterations_, changed, shift});
      stable = changed == 0;
      if (!stable && shift <= tolerance) break;
    }
    inertia_ = stable ? distances() : assign_and_distances();
  }

  /// The inertia by the nearest centroids as they are now.
  double assign_and_distances() {
    return with_type_of(table_, [&]<class T>(T) {
      const CentroidPanels<T> panels(values_of(centers_), clusters_, columns_);
      return inertia_after<T>([&](const Block& block, std::int32_t* labels) {
        assign(block.x<T>(), block.rows, panels, nullptr, labels, {});
      });
    });
  }

  const at::Tensor& centers() const noexcept { return centers_; }
  std::int64_t iterations() const noexcept { return iterations_; }
  double inertia() const noexcept { return inertia_; }

 private:
  /// Sums, weights and the number of labels that changed.
  at::Tensor sweep() {
    return with_type_of(table_, [&]<class T>(T) {
      const CentroidPanels<T> panels(values_of(centers_), clusters_, columns_);
      return fold(table_, options_.threads,
                  {.name = "k-means",
                   .size = clusters_ * (stride_ + 1) + 1,
                   .leaf = [&](const Block& block, std::int64_t number, double* sums, int) {
                     double* weights = sums + clusters_ * stride_;
                     weights[clusters_] = static_cast<double>(
                         assign(block.x<T>(), block.rows, panels, block.weights, labels_of(number), {sums, weights}));
                   }});
    });
  }

  /// The inertia by the labels that are there.
  double distances() {
    return with_type_of(table_, [&]<class T>(T) { return inertia_after<T>([](const Block&, std::int32_t*) {}); });
  }
  template <class T, class Label>
  double inertia_after(const Label& label) {
    return fold(table_, options_.threads,
                {.name = "inertia",
                 .size = 1,
                 .leaf =
                     [&](const Block& block, std::int64_t number, double* inertia, int) {
                       label(block, labels_of(number));
                       std::vector<double> distances(static_cast<std::size_t>(block.rows));
                       squared_distances(block.x<T>(), block.rows, columns_, centers_.const_data_ptr<double>(),
                                         labels_of(number), distances.data());
                       for (std::int64_t row = 0; row < block.rows; ++row) {
                         const double weight = block.weight(row);
                         *inertia += weight * distances[static_cast<std::size_t>(row)];
                       }
                     }})
        .template item<double>();
  }

  void check_sums(const at::Tensor& sums) const {
    if (!std::isfinite(sums.sum().item<double>())) check_finite(table_);
  }

  /// Moves centroids without rows to the rows that are farthest from theirs, as scikit-learn does.
  void fill_empty(double* sums, double* weights) {
    std::vector<std::int64_t> empty;
    for (std::int64_t cluster = 0; cluster < clusters_; ++cluster) {
      if (weights[cluster] == 0) empty.push_back(cluster);
    }
    if (empty.empty() || options_.empty == "keep") return;
    if (options_.empty == "error") {
      fail(Fault::Data, fmt::format("centroid {} has no rows; use fewer clusters, or empty = farthest", empty.front()));
    }
    const auto far = farthest(static_cast<std::int64_t>(empty.size()));
    for (std::size_t i = 0; i < far.size(); ++i) {
      const auto& [distance, number, weight, label] = far[i];
      if (distance <= 0) break;  // fewer different rows than centroids
      const at::Tensor row = rows_at(table_, {number});
      for (std::int64_t column = 0; column < columns_; ++column) {
        const double value = weight * row.const_data_ptr<double>()[column];
        sums[label * stride_ + column] -= value;
        sums[empty[i] * stride_ + column] = value;
      }
      weights[label] -= weight;
      weights[empty[i]] = weight;
    }
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
    const at::Tensor found =
        fold(table_, options_.threads,
             {.name = "farthest rows",
              .size = count * kWords,
              .leaf =
                  [&](const Block& block, std::int64_t number, double* best, int) {
                    std::vector<double> distances(static_cast<std::size_t>(block.rows));
                    with_type_of(table_, [&]<class T>(T) {
                      squared_distances(block.x<T>(), block.rows, columns_, centers_.const_data_ptr<double>(),
                                        labels_of(number), distances.data());
                    });
                    for (std::int64_t i = 0; i < count; ++i) best[i * kWords] = -1;
                    std::vector<double> one(static_cast<std::size_t>(count * kWords), -1);
                    for (std::int64_t row = 0; row < block.rows; ++row) {
                      const double weight = block.weight(row);
                      const double distance = distances[static_cast<std::size_t>(row)];
                      if (weight == 0 || distance <= best[(count - 1) * kWords]) continue;
                      one[0] = distance;
                      one[1] = static_cast<double>(block.first + row);
                      one[2] = weight;
                      one[3] = labels_of(number)[row];
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
  double move(const double* sums, const double* weights) {
    double* centers = centers_.mutable_data_ptr<double>();
    double way = 0;
    for (std::int64_t cluster = 0; cluster < clusters_; ++cluster) {
      if (weights[cluster] <= 0) continue;
      for (std::int64_t column = 0; column < columns_; ++column) {
        double& center = centers[cluster * columns_ + column];
        const double mean = sums[cluster * stride_ + column] / weights[cluster];
        way += (mean - center) * (mean - center);
        center = mean;
      }
    }
    return way;
  }

  std::int32_t* labels_of(std::int64_t block) { return labels_.data() + table_.own_place(block); }

  const Table& table_;
  const KMeansOptions& options_;
  std::int64_t clusters_, columns_, stride_;
  at::Tensor centers_;
  std::vector<std::int32_t> labels_;  // by row of this rank
  std::int64_t iterations_ = 0;
  double inertia_ = 0;
};

}  // namespace

KMeans::KMeans(KMeansOptions options) : options_(std::move(options)) {
  const auto from_one_on = [](std::int64_t value, const char* name) {
    if (value < 1) fail(Fault::Usage, fmt::format("{} = {}: it is from 1 on", name, value));
  };
  from_one_on(options_.n_clusters, "n_clusters");
  from_one_on(options_.max_iter, "max_iter");
  if (options_.n_init < 0) fail(Fault::Usage, fmt::format("n_init = {}: it is from 0 on", options_.n_init));
  if (!(options_.tol >= 0)) fail(Fault::Usage, fmt::format("tol = {}: it is from 0 on", options_.tol));
  if (options_.empty != "farthest" && options_.empty != "keep" && options_.empty != "error") {
    fail(Fault::Usage, fmt::format("empty = \"{}\": it is \"farthest\", \"keep\" or \"error\"", options_.empty));
  }
  if (!options_.centers.defined()) (void)KMeansStarts::instance().at("init", options_.init);
  if (options_.threads == 0) options_.threads = at::get_num_threads();
}

void KMeans::fit(const Table& table, const std::function<void(const KMeansPass&)>& see) {
  const std::int64_t clusters = options_.n_clusters;
  if (table.rows() < clusters) {
    fail(Fault::Usage, fmt::format("{} rows for {} clusters; use fewer clusters", table.rows(), clusters));
  }
  const at::Tensor& given = options_.centers;
  if (given.defined() && given.sizes() != at::IntArrayRef({clusters, table.columns()})) {
    fail(Fault::Usage, fmt::format("centers to begin with are [{}], and {} clusters of {} columns are wanted",
                                   fmt::join(given.sizes(), ", "), clusters, table.columns()));
  }
  const double tolerance = options_.tol == 0 ? 0 : options_.tol * mean_variance(table, options_.threads);
  const std::int64_t starts = given.defined()             ? 1
                              : options_.n_init > 0       ? options_.n_init
                              : options_.init == "random" ? 10
                                                          : 1;
  inertia_ = std::numeric_limits<double>::infinity();
  for (std::int64_t start = 0; start < starts; ++start) {
    const std::uint64_t seed = mix(options_.random_state, static_cast<std::uint64_t>(start));
    at::Tensor centers =
        given.defined() ? given.to(at::kDouble).contiguous().clone()
                        : KMeansStarts::instance().at("init", options_.init)(table, clusters, seed, options_.threads);
    Lloyd lloyd(table, options_, centers);
    lloyd.run(tolerance, start, see);
    if (!(lloyd.inertia() < inertia_)) continue;
    inertia_ = lloyd.inertia();
    centers_ = lloyd.centers();
    n_iter_ = lloyd.iterations();
  }
}

KMeans KMeans::from(const ModelFile& file) {
  const at::Tensor& centers = file["cluster_centers"];
  if (centers.dim() != 2 || centers.scalar_type() != at::kDouble) {
    fail(Fault::Data, "the model's cluster_centers are no matrix of float64");
  }
  KMeans result({.n_clusters = centers.size(0), .centers = centers});
  result.centers_ = centers;
  result.inertia_ = file.parameters.value("inertia", 0.0);
  result.n_iter_ = file.parameters.value("n_iter", std::int64_t{0});
  return result;
}

ModelFile KMeans::file(const Table& table) const {
  return {.algorithm = kName,
          .parameters = {{"n_clusters", options_.n_clusters},
                         {"init", options_.centers.defined() ? "given" : options_.init},
                         {"max_iter", options_.max_iter},
                         {"tol", options_.tol},
                         {"random_state", options_.random_state},
                         {"inertia", inertia_},
                         {"n_iter", n_iter_}},
          .columns = table.names(),
          .tensors = {{"cluster_centers", centers_}}};
}

at::Tensor KMeans::predict(const at::Tensor& x) const {
  const at::Tensor rows = x.contiguous();
  const at::Tensor labels = at::empty({rows.size(0)}, at::kInt);
  const auto label = [&]<class T>(T) {
    const CentroidPanels<T> panels(values_of(centers_), centers_.size(0), centers_.size(1));
    assign(rows.const_data_ptr<T>(), rows.size(0), panels, nullptr, labels.mutable_data_ptr<std::int32_t>(), {});
  };
  rows.scalar_type() == at::kFloat ? label(float{}) : label(double{});
  return labels;
}

at::Tensor KMeans::transform(const at::Tensor& x) const {
  const at::Tensor rows = x.to(at::kDouble).contiguous();
  const at::Tensor result = at::empty({centers_.size(0), rows.size(0)}, at::kDouble);
  for (std::int64_t cluster = 0; cluster < centers_.size(0); ++cluster) {
    squared_distances(rows.const_data_ptr<double>(), rows.size(0), centers_.size(1),
                      centers_.const_data_ptr<double>() + cluster * centers_.size(1), nullptr,
                      result.mutable_data_ptr<double>() + cluster * rows.size(0));
  }
  return result.t().sqrt().contiguous();
}

double KMeans::score(const Table& table) const {
  KMeansOptions options = options_;
  Lloyd lloyd(table, options, centers_.clone());
  return -lloyd.assign_and_distances();
}

namespace {

class Labels final : public Predictor {
 public:
  explicit Labels(const ModelFile& model) : kmeans_(KMeans::from(model)) {}
  at::Tensor predict(const at::Tensor& x) const override { return kmeans_.predict(x); }
  std::vector<std::string> outputs() const override { return {"label"}; }

 private:
  KMeans kmeans_;
};

const PredictorRegistry::Add registered{kName, "The nearest of the centroids that K-means found",
                                        [](const ModelFile& model) { return std::make_unique<Labels>(model); }};

}  // namespace
}  // namespace lockstep::ml
