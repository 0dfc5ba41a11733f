// lockstep/train/model_probe.h
//
// What the model of a recipe costs, link by link, as one process finds out before a run begins: on samples
// of zeros, and with the layers split over ranks that are only imagined.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "lockstep/core/config.h"
#include "lockstep/data/field.h"
#include "lockstep/models/model.h"
#include "lockstep/parallel/link_costs.h"
#include "lockstep/parallel/tensor_parallel.h"
#include "lockstep/train/precision.h"
#include "lockstep/train/task.h"

namespace lockstep::train {

struct ProbedModel {
  std::shared_ptr<const TaskKind> kind;
  data::Schema schema;  // of what the model learns of, after the transforms
  models::ModelData data;
  parallel::TensorPlan tensor_plan;  // empty: the model's own
  bool sequence = false;             // the model's own that cuts activations along time, too
  bool drops_inputs = false;         // recompute = "selective"
  Precision precision = Precision::Float32;
  std::string device = "cpu";
  std::uint64_t seed = 0;
};

class ModelProbe {
 public:
  /// The recipe outlives it.
  ModelProbe(const Config& recipe, ProbedModel model);

  /// Of a rank's part where layers are split over `tensor` ranks; measured when first asked for. An Error, with the
  /// reason, if the model cannot be split so, or not be measured here.
  const parallel::ModelCosts& costs(int tensor = 1);

 private:
  parallel::ModelCosts measure(int tensor) const;
  data::Batch samples(std::int64_t count) const;

  const Config& recipe_;
  ProbedModel model_;
  std::map<int, parallel::ModelCosts> known_;  // by ranks of the tensor axis
};

/// Fault::Usage if recompute = "selective" has nothing to make again in the recipe's model.
void check_made_inputs(const models::Model& model, const Config& recipe);

}  // namespace lockstep::train
