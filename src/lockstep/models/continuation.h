// lockstep/models/continuation.h
//
// A text that goes on: a model of tokens reads it one token after another, and says each time what
// may follow. Up to the model's context a token costs one token; a longer text is read anew from its last
// tokens each time, since what a model keeps of a token depends on all that came before it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/models/model.h"

namespace lockstep::models {

class Continuation {
 public:
  /// `model` is evaluated, not trained, and outlives this.
  explicit Continuation(Model& model) : model_(model) {}
  /// Scores [outputs] of what follows these tokens, at least one, which follow those of earlier calls.
  at::Tensor after(std::span<const std::int64_t> tokens);

 private:
  Model& model_;
  std::vector<std::int64_t> text_;  // as much of its end as the model takes
  std::size_t read_ = 0;            // of it, so that past_ knows of them
  Past past_;
};

}  // namespace lockstep::models
