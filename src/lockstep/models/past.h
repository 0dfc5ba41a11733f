// lockstep/models/past.h
//
// What a model keeps of the tokens that it has read, so that one more costs one and not all of
// them again. Whoever reads on has one of these for each text; the model itself keeps nothing.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep::models {

struct Past {
  /// Of a layer of attention, [batch, head, time, width of a head]; undefined: of no tokens yet.
  struct Attended {
    at::Tensor keys, values;

    std::int64_t tokens() const { return keys.defined() ? keys.size(2) : 0; }
  };

  std::vector<Attended> layers;  // of models that know how to go on from them
  at::Tensor tokens;             // [batch, time], of all others, which read anew
};

}  // namespace lockstep::models
