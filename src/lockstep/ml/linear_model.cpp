#include "lockstep/ml/linear_model.h"

#include <optional>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/where.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/on_threads.h"
#include "lockstep/core/one_thread.h"
#include "lockstep/ml/check_rows.h"
#include "lockstep/ml/preparation.h"
#include "lockstep/ml/score.h"

namespace lockstep::ml {

at::Tensor LinearModel::predict(const at::Tensor& x) const {
  return checked_rows(x, fitted_columns(coef)).to(at::kDouble).matmul(coef.t()) + intercept;
}

void LinearModel::check_for(const Table& table) const {
  check_columns(table, fitted_columns(coef));
  check_targets(table, coef.size(0));
}

void share(const Table& table, LinearModel& model) {
  table.group().broadcast_({model.coef, model.intercept}, 0, {.name = "coefficients"}).wait();
}

double r2_score(const Gram& gram, const LinearModel& model) {
  const OneThread same_bits;
  // |y - x·coef - b|² needs no second look at the rows.
  const std::int64_t columns = model.coef.size(1);
  const at::Tensor xx = gram.centred.slice(0, 0, columns).slice(1, 0, columns);
  const at::Tensor xy = gram.centred.slice(0, 0, columns).slice(1, columns);
  const at::Tensor total = gram.centred.slice(0, columns).slice(1, columns).diagonal();
  const at::Tensor off = gram.mean.slice(0, columns) - model.predict(gram.mean.slice(0, 0, columns).unsqueeze(0))[0];
  const at::Tensor explained = 2 * (model.coef.t() * xy).sum(0) - (model.coef.matmul(xx) * model.coef).sum(1);
  const at::Tensor left = total - explained + gram.weight * off.square();
  return at::where(total.gt(0), 1 - left / total, left.le(0).to(at::kDouble)).mean().item<double>();
}

double r2_score_of_rows(const Table& table, const LinearModel& model, int threads) {
  model.check_for(table);
  const std::int64_t columns = table.columns(), targets = table.targets();
  const at::Tensor said = at::empty({table.own_rows(), targets}, at::kDouble);
  // It ends before those of r2_of() begin.
  auto sweep = std::make_optional<Sweep>(table.observer().get(), "variance explained", table.own_rows());
  const auto say = [&]<class T>(std::int64_t number, at::Tensor& scratch, T) {
    const Block block = table.block(number, scratch);
    double* to = said.mutable_data_ptr<double>() + table.own_place(number) * targets;
    for (std::int64_t i = 0; i < block.rows * targets; ++i) {
      const T* x = block.x<T>() + i / targets * columns;
      const double* coef = model.coef.const_data_ptr<double>() + i % targets * columns;
      double sum = model.intercept.const_data_ptr<double>()[i % targets];
      for (std::int64_t column = 0; column < columns; ++column) sum += coef[column] * x[column];
      to[i] = sum;
    }
    sweep->add(block.rows);
  };
  std::vector<at::Tensor> scratch(static_cast<std::size_t>(threads));
  on_threads(threads, table.own_end() - table.own_begin(), 1, [&](std::int64_t begin, std::int64_t end, int thread) {
    for (std::int64_t block = begin; block < end; ++block) {
      with_type_of(table,
                   [&](auto type) { say(table.own_begin() + block, scratch[static_cast<std::size_t>(thread)], type); });
    }
  });
  sweep.reset();
  return r2_of(table, said, threads);
}

void check_has_target(const Table& table) {
  if (table.targets() == 0) fail(Fault::Usage, "regression needs a target");
  for (const auto& name : table.target_names()) {
    if (table.preparation() == nullptr || !table.preparation()->categories.contains(name)) continue;
    fail(Fault::Usage,
         fmt::format("'{}' is text, and regression explains numbers; classes are for a classifier, such as logreg",
                     name));
  }
}

ModelFile linear_file(const std::string& algorithm, const LinearModel& model, const Table& table,
                      nlohmann::json parameters) {
  parameters["targets"] = table.target_names();
  return file_for(table, algorithm, std::move(parameters), {{"coef", model.coef}, {"intercept", model.intercept}});
}

LinearModel linear_model_from(const ModelFile& file) {
  LinearModel model{file.by_columns("coef"), file["intercept"]};
  if (model.coef.dim() != 2 || model.coef.scalar_type() != at::kDouble ||
      model.intercept.scalar_type() != at::kDouble ||
      model.intercept.sizes() != at::IntArrayRef({model.coef.size(0)})) {
    fail(Fault::Data, "the model's coef and intercept are no coefficients of a linear model");
  }
  return model;
}

}  // namespace lockstep::ml
