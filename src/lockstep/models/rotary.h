// lockstep/models/rotary.h
//
// Rotary positions (Su et al., "RoFormer", 2021): neighbouring numbers of a query or key are a point
// in a plane, turned by an angle that grows with the token's position, in each plane at another
// speed. The product of a query and a key then depends on how far they are apart, not on where they are.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace lockstep::models {

/// Turns of positions [first, first + time), as complex numbers [time, width / 2]; `width` is even. Of the type and on
/// the device of `like`, but never of half.
at::Tensor rotary_turns(std::int64_t first, std::int64_t time, std::int64_t width, const at::Tensor& like);

/// `values` [..., time, width] turned.
at::Tensor rotated(const at::Tensor& values, const at::Tensor& turns);

}  // namespace lockstep::models
