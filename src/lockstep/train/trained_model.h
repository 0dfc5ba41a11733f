// lockstep/train/trained_model.h
//
// The model of a checkpoint, whole and in one process, whatever layout has trained it and without
// its data.
#pragma once

#include <memory>

#include <nlohmann/json.hpp>

#include "lockstep/core/config.h"
#include "lockstep/models/model.h"
#include "lockstep/parallel/parameter.h"

namespace lockstep::train {

/// Puts what the data has said of the model among the facts of a checkpoint.
void note_model_data(nlohmann::json& facts, const models::ModelData& data);
/// What was noted there. Fault::Usage if nothing was.
models::ModelData noted_model_data(const nlohmann::json& facts);

/// As the recipe describes it, with these weights and buffers; evaluated, not trained. Fault::Usage if some of them are
/// missing or of another shape.
std::unique_ptr<models::Model> trained_model(const Config& recipe, const models::ModelData& data,
                                             const parallel::Parameters& weights);

}  // namespace lockstep::train
