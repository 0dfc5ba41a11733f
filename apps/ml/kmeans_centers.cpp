#include "ml/kmeans_centers.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/ml/algorithms/kmeans_model.h"
#include "lockstep/ml/model_file.h"
#include "lockstep/ml/read_table.h"

namespace lockstep::apps {
namespace {

void check_columns(const std::string& path, std::int64_t columns, const ml::Table& table) {
  if (columns == table.columns()) return;
  fail(Fault::Usage,
       fmt::format("{} has centroids of {} columns, and the rows have {}", path, columns, table.columns()));
}

at::Tensor of_model(const std::string& path, const ml::Table& table) {
  const auto model = ml::read_model(path);
  at::Tensor centers = ml::KMeansModel::from(model).cluster_centers().contiguous().clone();
  check_columns(path, centers.size(1), table);
  if (model.columns != table.names()) {
    fail(Fault::Usage,
         fmt::format("{} was fitted to other columns than these rows have; name them by --columns", path));
  }
  const ml::Preparation none;
  const auto& before = model.preparation;
  const auto& now = table.preparation() != nullptr ? *table.preparation() : none;
  for (const auto& field : before.ordinal) {
    const auto own = now.categories.find(field);
    if (own == now.categories.end() || own->second != before.categories.at(field)) {
      fail(Fault::Usage,
           fmt::format("{} was fitted where '{}' had other values, which --ordinal numbers in another way; "
                       "encode it by --onehot",
                       path, field));
    }
  }
  if (before.scale == now.scale && before.shift == now.shift) return centers;
  // Those rows were scaled in another way: back to what they were, and on to what these are.
  if (!before.scale.empty()) {
    centers = (centers * at::tensor(before.scale, at::kDouble) + at::tensor(before.shift, at::kDouble)).contiguous();
  }
  now.apply(centers.mutable_data_ptr<double>(), centers.size(0), centers.size(1));
  return centers;
}

at::Tensor of_rows(const std::string& path, const ml::Table& table) {
  const ml::Preparation* like = table.preparation().get();
  ml::ColumnChoice choice{.columns = like != nullptr ? like->fields : table.names(), .type = "float64"};
  const auto dataset = data::open(path);
  const auto& schema = dataset->schema();
  const bool has_all = std::all_of(choice.columns.begin(), choice.columns.end(), [&](const std::string& name) {
    return std::any_of(schema.begin(), schema.end(), [&](const data::Field& field) { return field.name == name; });
  });
  if (has_all && like != nullptr) {
    choice.onehot = like->onehot;
    choice.ordinal = like->ordinal;
  } else if (!has_all) {
    choice.columns.clear();
  }
  check_columns(path, ml::RowLayout(*dataset, choice, like != nullptr ? like->categories : ml::Categories()).columns(),
                table);
  const auto centers =
      ml::read_table(table.group(), path, {}, {.choice = choice, .like = like, .threads = at::get_num_threads()});
  try {
    ml::check_finite(*centers);
  } catch (Error& error) {
    error.during("reading " + path);
    throw;
  }
  std::vector<std::int64_t> all(static_cast<std::size_t>(centers->rows()));
  std::iota(all.begin(), all.end(), std::int64_t{0});
  return ml::rows_at(*centers, all);
}

}  // namespace

void begin_with_centers(KMeansCommand& command, const ml::Table& table) {
  const std::string& path = command.centers;
  if (path.empty()) return;
  auto& options = command.kmeans;
  options.centers = path.ends_with(".safetensors") ? of_model(path, table) : of_rows(path, table);
  const std::int64_t given = options.centers.size(0);
  if (!command.clusters.empty() && given != options.n_clusters) {
    fail(Fault::Usage,
         fmt::format("{} has {} centroids, and -k asks for {}; leave -k out", path, given, options.n_clusters));
  }
  options.n_clusters = given;
}

}  // namespace lockstep::apps
