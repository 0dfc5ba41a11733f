// lockstep/train/forward_scope.h
//
// How layers compute while it lives, on the thread that made it, and what they keep for backward.
#pragma once

#include <optional>

#include <c10/core/DeviceType.h>

#include "lockstep/parallel/layers/made_input.h"
#include "lockstep/train/precision.h"

namespace lockstep::train {

class ForwardScope {
 public:
  /// `drops_inputs`: recompute = "selective".
  ForwardScope(Precision precision, c10::DeviceType device, bool drops_inputs) : autocast_(precision, device) {
    if (drops_inputs) dropped_.emplace();
  }

 private:
  Autocast autocast_;
  std::optional<parallel::MadeInputsDropped> dropped_;
};

}  // namespace lockstep::train
