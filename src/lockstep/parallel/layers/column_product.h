// lockstep/parallel/layers/column_product.h
//
// A linear map of which each of several ranks has some outputs. In backward the slopes of the input travel between
// ranks while the gradient of the weight is computed, which is written where it is to lie, or put off (see
// late_gradients.h) until there is nothing else to do.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/layers/made_input.h"

namespace lockstep::parallel {

/// `ranks` have other outputs of the same input, or nullptr; with `over_time` each has a slice of the input's time.
at::Tensor column_product(const MadeInput& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                          comm::Communicator* ranks, bool over_time);

}  // namespace lockstep::parallel
