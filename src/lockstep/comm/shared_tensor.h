// lockstep/comm/shared_tensor.h
//
// Tensors whose storage lies in an arena. The one file that touches libtorch's
// allocator interface.
#pragma once

#include <memory>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/arena.h"

namespace lockstep::comm {

/// An ordinary, resizable CPU tensor; its memory goes back to `arena` with its last owner.
at::Tensor empty_in_arena(const std::shared_ptr<Arena>& arena, at::IntArrayRef sizes, at::ScalarType type);

}  // namespace lockstep::comm
