#include "lockstep/ml/linear_model.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/where.h>

#include "lockstep/core/error.h"

namespace lockstep::ml {

at::Tensor LinearModel::predict(const at::Tensor& x) const { return x.to(at::kDouble).matmul(coef.t()) + intercept; }

void share(const Table& table, LinearModel& model) {
  table.group().broadcast_({model.coef, model.intercept}, 0, {.name = "coefficients"}).wait();
}

double r2_score(const Gram& gram, const LinearModel& model) {
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

void check_has_target(const Table& table) {
  if (table.targets() == 0) fail(Fault::Usage, "regression needs a target");
}

ModelFile linear_file(const std::string& algorithm, const LinearModel& model, const Table& table,
                      nlohmann::json parameters) {
  parameters["targets"] = table.target_names();
  return {.algorithm = algorithm,
          .parameters = std::move(parameters),
          .columns = table.names(),
          .tensors = {{"coef", model.coef}, {"intercept", model.intercept}}};
}

LinearModel linear_model_from(const ModelFile& file) {
  LinearModel model{file["coef"], file["intercept"]};
  if (model.coef.dim() != 2 || model.coef.scalar_type() != at::kDouble ||
      model.intercept.scalar_type() != at::kDouble ||
      model.intercept.sizes() != at::IntArrayRef({model.coef.size(0)})) {
    fail(Fault::Data, "the model's coef and intercept are no coefficients of a linear model");
  }
  return model;
}

}  // namespace lockstep::ml
