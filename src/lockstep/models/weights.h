// lockstep/models/weights.h
//
// The weights of a model in a file, by the names that they have in PyTorch.
#pragma once

#include <string>
#include <vector>

#include "lockstep/models/model.h"

namespace lockstep::models {

/// Parameters and buffers.
void save_weights(const torch::nn::Module& model, const std::string& path);
void save_weights(Model& model, const std::string& path);

/// Names may all have one prefix more, such as "module." of PyTorch's data parallelism. Tensors whose names fit one of
/// the patterns `except` stay as they are in the model, and unread in the file. Fault::Usage, naming the tensors, if
/// others are missing, are more than the model has or of another shape, or if a pattern fits none.
void load_weights(Model& model, const std::string& path, const std::vector<std::string>& except = {});

/// Parameters whose names fit one of the patterns are not trained. Fault::Usage if a pattern fits none.
void freeze(Model& model, const std::vector<std::string>& patterns);

}  // namespace lockstep::models
