#include "lockstep/ml/algorithms/kmeans_model.h"

#include <memory>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include "lockstep/core/error.h"
#include "lockstep/core/on_threads.h"
#include "lockstep/ml/algorithms/centroid_columns.h"
#include "lockstep/ml/algorithms/labelled_rows.h"
#include "lockstep/ml/check_rows.h"

namespace lockstep::ml {
namespace {

constexpr const char kName[] = "kmeans";
constexpr std::int64_t kRowsAtOnce = 1024;  // by a thread

}  // namespace

KMeansModel KMeansModel::from(const ModelFile& file) {
  KMeansModel result;
  result.centers_ = file.by_columns("cluster_centers");
  if (result.centers_.dim() != 2 || result.centers_.scalar_type() != at::kDouble) {
    fail(Fault::Data, "the model's cluster_centers are no matrix of float64");
  }
  result.inertia_ = file.parameter("inertia", 0.0);
  result.n_iter_ = file.parameter("n_iter", std::int64_t{0});
  return result;
}

ModelFile KMeansModel::file_with(const Table& table, const nlohmann::json& parameters) const {
  check_columns(table, fitted_columns(centers_));
  ModelFile file = file_for(table, kName, parameters, {{"cluster_centers", centers_}});
  file.parameters["n_clusters"] = centers_.size(0);
  file.parameters["inertia"] = inertia_;
  file.parameters["n_iter"] = n_iter_;
  return file;
}

at::Tensor KMeansModel::predict(const at::Tensor& x) const {
  const at::Tensor rows = checked_rows(x, fitted_columns(centers_));
  const at::Tensor labels = at::empty({rows.size(0)}, at::kInt);
  const auto label = [&, to = labels.mutable_data_ptr<std::int32_t>()]<class T>(const T* values) {
    const auto centroids = centroid_columns<T>(centers_);
    on_threads(at::get_num_threads(), rows.size(0), kRowsAtOnce, [&](std::int64_t first, std::int64_t last, int) {
      assign(values + first * rows.size(1), last - first, centroids, nullptr, to + first, {});
    });
  };
  rows.scalar_type() == at::kFloat ? label(rows.const_data_ptr<float>()) : label(rows.const_data_ptr<double>());
  return labels;
}

at::Tensor KMeansModel::transform(const at::Tensor& x) const {
  const at::Tensor rows = checked_rows(x, fitted_columns(centers_)).to(at::kDouble);
  const at::Tensor result = at::empty({centers_.size(0), rows.size(0)}, at::kDouble);
  const double *values = rows.const_data_ptr<double>(), *centers = centers_.const_data_ptr<double>();
  const std::int64_t columns = centers_.size(1);
  double* to = result.mutable_data_ptr<double>();
  on_threads(at::get_num_threads(), rows.size(0), kRowsAtOnce, [&](std::int64_t first, std::int64_t last, int) {
    for (std::int64_t cluster = 0; cluster < centers_.size(0); ++cluster) {
      squared_distances(values + first * columns, last - first, columns, centers + cluster * columns, nullptr,
                        to + cluster * rows.size(0) + first);
    }
  });
  return result.t().sqrt().contiguous();
}

double KMeansModel::score(const Table& table, int threads) const {
  check_columns(table, fitted_columns(centers_));
  return -LabelledRows(table, threads == 0 ? at::get_num_threads() : threads).nearest_inertia(centers_);
}

namespace {

class Labels final : public Predictor {
 public:
  explicit Labels(const ModelFile& model) : kmeans_(KMeansModel::from(model)) {}
  at::Tensor predict(const at::Tensor& x) const override { return kmeans_.predict(x); }
  std::vector<std::string> outputs() const override { return {"label"}; }

 private:
  KMeansModel kmeans_;
};

const PredictorRegistry::Add registered{kName, "The nearest of the centroids that K-means found",
                                        [](const ModelFile& model) { return std::make_unique<Labels>(model); }};

}  // namespace
}  // namespace lockstep::ml
