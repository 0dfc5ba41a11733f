#include "lockstep/ml/algorithms/labelled_rows.h"

#include <cmath>

#include <ATen/ops/tensor.h>

#include "lockstep/ml/algorithms/centroid_columns.h"
#include "lockstep/ml/fold.h"

namespace lockstep::ml {

bool ClusterTotals::finite() const { return std::isfinite(values.sum().item<double>()); }

LabelledRows::LabelledRows(const Table& table, int threads)
    : table_(table), threads_(threads), labels_(static_cast<std::size_t>(table.own_rows()), -1) {}

at::Tensor LabelledRows::labels() const { return at::tensor(labels_, at::kInt); }

ClusterTotals LabelledRows::sweep(const at::Tensor& centers, bool with_inertia) {
  const std::int64_t clusters = centers.size(0), stride = padded(table_.columns());
  const at::Tensor values = with_type_of(table_, [&]<class T>(T) {
    const auto centroids = centroid_columns<T>(centers);
    return fold(table_, threads_,
                {.name = "k-means",
                 .size = clusters * (stride + 1) + 2,
                 .leaf = [&](const Block& block, std::int64_t number, double* sums, int) {
                   double* weights = sums + clusters * stride;
                   weights[clusters] = static_cast<double>(
                       assign(block.x<T>(), block.rows, centroids, block.weights, labels_of(number), {sums, weights}));
                   if (with_inertia) weights[clusters + 1] = weighted_distances(block, number, centers);
                 }});
  });
  return {values, clusters, stride};
}

double LabelledRows::inertia(const at::Tensor& centers) const {
  return inertia_after(centers, [](const Block&, std::int64_t) {});
}

double LabelledRows::nearest_inertia(const at::Tensor& centers) {
  return with_type_of(table_, [&]<class T>(T) {
    const auto centroids = centroid_columns<T>(centers);
    return inertia_after(centers, [&](const Block& block, std::int64_t number) {
      assign(block.x<T>(), block.rows, centroids, nullptr, labels_of(number), {});
    });
  });
}

std::vector<double> LabelledRows::squared_distances_of(const Block& block, std::int64_t number,
                                                       const at::Tensor& centers) const {
  std::vector<double> distances(static_cast<std::size_t>(block.rows));
  with_type_of(table_, [&]<class T>(T) {
    squared_distances(block.x<T>(), block.rows, table_.columns(), centers.const_data_ptr<double>(), labels_of(number),
                      distances.data());
  });
  return distances;
}

double LabelledRows::inertia_after(const at::Tensor& centers,
                                   const std::function<void(const Block& block, std::int64_t number)>& label) const {
  return fold(table_, threads_,
              {.name = "inertia",
               .size = 1,
               .leaf =
                   [&](const Block& block, std::int64_t number, double* inertia, int) {
                     label(block, number);
                     *inertia = weighted_distances(block, number, centers);
                   }})
      .item<double>();
}

double LabelledRows::weighted_distances(const Block& block, std::int64_t number, const at::Tensor& centers) const {
  const auto distances = squared_distances_of(block, number, centers);
  double sum = 0;
  for (std::int64_t row = 0; row < block.rows; ++row)
    sum += block.weight(row) * distances[static_cast<std::size_t>(row)];
  return sum;
}

}  // namespace lockstep::ml
