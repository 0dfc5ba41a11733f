// lockstep/parallel/initial_values.h
//
// The weights that a parameter begins with, each a function of the run's seed, the parameter's
// name and the element's place in it alone: whoever holds a part of a parameter makes just that
// part, with the values that the whole would have.
#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

#include "lockstep/parallel/parameter_part.h"

namespace lockstep::parallel {

struct InitialValues {
  enum class Kind : std::uint8_t { Constant, Uniform, Normal };
  Kind kind = Kind::Constant;
  double scale = 0;  // the constant; the bound on both sides; the deviation

  static InitialValues constant(double value) { return {Kind::Constant, value}; }
  static InitialValues uniform(double bound) { return {Kind::Uniform, bound}; }
  static InitialValues normal(double deviation) { return {Kind::Normal, deviation}; }
};

/// `tensor` is `part` of the parameter `name`; float32 or float64.
void fill_(const at::Tensor& tensor, const ParameterPart& part, const InitialValues& values, std::uint64_t seed,
           const std::string& name);
/// From torch's generator.
void fill_by_torch_(const at::Tensor& tensor, const InitialValues& values);

}  // namespace lockstep::parallel
