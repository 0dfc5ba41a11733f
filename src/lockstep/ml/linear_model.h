// lockstep/ml/linear_model.h
//
// What the linear family comes to: coefficients, how much they explain, and their file.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/ml/gram.h"
#include "lockstep/ml/model_file.h"
#include "lockstep/ml/table.h"

namespace lockstep::ml {

/// y ≈ x · coefᵀ + intercept.
struct LinearModel {
  at::Tensor coef;       // float64 [targets, columns]
  at::Tensor intercept;  // float64 [targets]

  /// float64 [rows, targets]. Fault::Usage on other columns and before a fit.
  at::Tensor predict(const at::Tensor& x) const;
  /// Fault::Usage unless it has the columns and as many targets.
  void check_for(const Table& table) const;
};

/// Hosts may compute the last bits in different ways: all take those of rank 0. A collective.
void share(const Table& table, LinearModel& model);

/// The share of the targets' variance that the model explains, the mean over targets, from products alone. As of
/// scikit-learn's r2_score it is 1 of a constant target if the model says so, and else 0.
double r2_score(const Gram& gram, const LinearModel& model);
/// The same from what is left of each row: with large coefficients that cancel each other, products have lost it. A
/// collective.
double r2_score_of_rows(const Table& table, const LinearModel& model, int threads);

/// Fault::Usage unless the table has a target.
void check_has_target(const Table& table);

/// For a file, with the names of the table that it was fitted to.
ModelFile linear_file(const std::string& algorithm, const LinearModel& model, const Table& table,
                      nlohmann::json parameters);
/// Fault::Data if the file holds none.
LinearModel linear_model_from(const ModelFile& file);

/// For `lockstep predict`.
class LinearPredictor final : public Predictor {
 public:
  explicit LinearPredictor(const ModelFile& file)
      : model_(linear_model_from(file)), targets_(file.parameter("targets", std::vector<std::string>())) {}
  at::Tensor predict(const at::Tensor& x) const override { return model_.predict(x); }
  std::vector<std::string> outputs() const override { return targets_; }

 private:
  LinearModel model_;
  std::vector<std::string> targets_;
};

}  // namespace lockstep::ml
