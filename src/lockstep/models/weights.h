// lockstep/models/weights.h
//
// The weights of a model in a file, by the names that they have in PyTorch.
#pragma once

#include <string>

#include "lockstep/models/model.h"

namespace lockstep::models {

/// Parameters and buffers.
void save_weights(Model& model, const std::string& path);

/// Names may all have one prefix more, such as "module." of PyTorch's data parallelism. Fault::Usage, naming the
/// tensors, if one is missing or of another shape. What the model does not have is left unread.
void load_weights(Model& model, const std::string& path);

}  // namespace lockstep::models
