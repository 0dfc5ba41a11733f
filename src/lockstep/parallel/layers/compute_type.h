// lockstep/parallel/layers/compute_type.h
//
// The type in which a layer computes that does its own backward: that of autocast where it is on, for which autograd
// of libtorch's own layers would cast.
#pragma once

#include <optional>

#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>

namespace lockstep::parallel {

class ComputeType {
 public:
  /// Now, on the device of `weight`.
  static ComputeType of(const at::Tensor& weight) {
    ComputeType type;
    const auto device = weight.device().type();
    if (at::autocast::is_autocast_enabled(device)) type.cast_to_ = at::autocast::get_autocast_dtype(device);
    return type;
  }

  /// Whether a layer can compute with both.
  bool fits(const at::Tensor& values, const at::Tensor& weight) const {
    return cast_to_ || values.scalar_type() == weight.scalar_type();
  }
  at::Tensor cast(const at::Tensor& values) const { return cast_to_ ? values.to(*cast_to_) : values; }
  std::optional<at::Tensor> cast(const std::optional<at::Tensor>& values) const {
    return values ? std::optional(cast(*values)) : std::nullopt;
  }

 private:
  std::optional<at::ScalarType> cast_to_;
};

}  // namespace lockstep::parallel
